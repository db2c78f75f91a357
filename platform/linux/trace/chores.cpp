#include "platform/linux/trace/chores.h"

#include <chrono>
#include <utility>

#include "platform/linux/trace/interrupted_syscall.h"

namespace heapsnap {

namespace {

constexpr std::chrono::milliseconds kBetween{1};

thread_local std::vector<std::function<bool()>> chores;
thread_local TraceClock::time_point next_call;

bool is_detached(Tracee& tracee) {
  if (!tracee.poll()) return false;
  if (tracee.is_gone()) return true;
  if (const auto repaired = repaired_registers(tracee)) tracee.set_registers(*repaired);
  if (tracee.detach()) return true;
  tracee.forget_stop();  // killed, or taken over by an execve
  return false;
}

}  // namespace

void keep_calling(std::function<bool()> chore) {
  chores.push_back(std::move(chore));
}

bool has_chores() noexcept {
  return !chores.empty();
}

void call_due_chores() {
  if (chores.empty()) return;
  const auto now = TraceClock::now();
  if (now < next_call) return;
  next_call = now + kBetween;
  std::erase_if(chores, [](const std::function<bool()>& chore) { return !chore(); });
}

void detach_when_stopped(std::vector<Tracee> tracees) {
  keep_calling([tracees = std::move(tracees)]() mutable {
    std::erase_if(tracees, is_detached);
    return !tracees.empty();
  });
}

}  // namespace heapsnap
