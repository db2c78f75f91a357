#include "platform/linux/proc/process_end.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace heapsnap {

namespace {

constexpr std::chrono::milliseconds kBetweenEndLooks{250};
constexpr long kPidfdOpen = 434;  // 5.3

}  // namespace

UniqueFd open_pidfd(int pid) {
  return UniqueFd(static_cast<int>(::syscall(kPidfdOpen, pid, 0)));
}

ProcessEnd::ProcessEnd(const ProcFs& proc, int pid)
    : proc_(proc),
      pid_(pid),
      start_time_ticks_(proc.stat(pid).start_time_ticks),
      process_(open_pidfd(pid)) {}

bool ProcessEnd::poll(std::chrono::milliseconds patience) const {
  pollfd end{process_.get(), POLLIN, 0};
  return ::poll(&end, 1, static_cast<int>(patience.count())) == 1;
}

bool ProcessEnd::has_come() const {
  if (process_) return poll(std::chrono::milliseconds(0));
  const auto now = proc_.try_stat(pid_);
  if (!now || now->start_time_ticks != start_time_ticks_) return true;
  return now->is_dead() && !proc_.live_tid(pid_);
}

bool ProcessEnd::wait_until(std::chrono::steady_clock::time_point deadline) const {
  using std::chrono::ceil;
  using std::chrono::milliseconds;
  // So that no wait is too long for an int.
  constexpr milliseconds kLongestWait{60'000};
  while (true) {
    const auto left = ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= milliseconds(0)) return has_come();
    if (process_) {
      if (poll(std::min(left, kLongestWait))) return true;
    } else {
      std::this_thread::sleep_for(std::min(left, kBetweenEndLooks));
      if (has_come()) return true;
    }
  }
}

}  // namespace heapsnap
