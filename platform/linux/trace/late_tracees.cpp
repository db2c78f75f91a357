#include "platform/linux/trace/late_tracees.h"

#include <algorithm>
#include <utility>

#include "platform/linux/self/nap.h"
#include "platform/linux/trace/interrupted_syscall.h"

namespace heapsnap {

namespace {

constexpr std::chrono::milliseconds kBetween{1};

thread_local std::vector<Tracee> late;
thread_local TraceClock::time_point next_look;

}  // namespace

bool detach_if_stopped(Tracee& tracee) {
  if (!tracee.poll()) return false;
  if (tracee.is_gone()) return true;
  if (const auto repaired = repaired_registers(tracee)) tracee.set_registers(*repaired);
  if (tracee.detach()) return true;
  tracee.forget_stop();  // killed, or taken over by an execve
  return false;
}

void detach_when_stopped(std::vector<Tracee> tracees) {
  late.insert(late.end(), tracees.begin(), tracees.end());
}

bool has_late_tracees() noexcept {
  return !late.empty();
}

void look_after_late_tracees() {
  if (late.empty()) return;
  const auto now = TraceClock::now();
  if (now < next_look) return;
  next_look = now + kBetween;
  std::erase_if(late, detach_if_stopped);
}

std::optional<Tracee> take_late_tracee(int tid) {
  const auto found = std::find_if(late.begin(), late.end(),
                                  [tid](const Tracee& tracee) { return tracee.tid() == tid; });
  if (found == late.end()) return std::nullopt;
  const Tracee taken = *found;
  late.erase(found);
  return taken;
}

void give_up_late_zombies() noexcept {
  for (const Tracee& tracee : late) tracee.give_up_zombie();
}

void nap_beside_late_tracees(std::chrono::microseconds duration) {
  const auto end = TraceClock::now() + duration;
  while (has_late_tracees() && TraceClock::now() < end) {
    look_after_late_tracees();
    nap(std::min<std::chrono::microseconds>(duration, kBetween));
  }
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(end - TraceClock::now());
  if (left > std::chrono::microseconds(0)) nap(left);
}

}  // namespace heapsnap
