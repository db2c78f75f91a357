// What tests of tests/live share: how they freeze, and look at processes that end.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <chrono>
#include <string>

#include "platform/linux/freeze/frozen_process.h"
#include "tests/eventually.h"
#include "tests/live/live_target.h"

namespace heapsnap::live {

// With time for a machine that is busy with other tests.
inline FreezeOptions choose(FreezeChoice choice) {
  FreezeOptions options;
  options.choice = choice;
  options.deadline = std::chrono::seconds(20);
  return options;
}

// A line each.
inline std::string notes_of(const FreezeRecord& record) {
  std::string text;
  for (const std::string& note : record.notes) text += note + "\n";
  return text;
}

inline void check_end(LiveTarget& target) {
  auto seen = target.finish();
  CHECK(target.exit_status() == 0);
  INFO((seen.contains("error") ? seen.at("error") : 0));
  CHECK(seen.at("errors") == 0);
}

// Waits for the end of a child of this process. As of waitpid(2), -1 where there is no such child.
inline int status_of(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace heapsnap::live
