// A bounded wait for what another thread or process does.
#pragma once

#include <time.h>

#include <chrono>

namespace heapsnap {

// Calls `done` until it gives true, at intervals that are short, but leave the processor to what is
// waited for. False when it has not by the end of `patience`.
template <typename Condition>
bool eventually(Condition done, std::chrono::seconds patience = std::chrono::seconds(10)) {
  constexpr timespec kInterval{0, 200'000};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::nanosleep(&kInterval, nullptr);
  }
  return true;
}

}  // namespace heapsnap
