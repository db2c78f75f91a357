#include "platform/linux/inject/sole_thread_hold.h"

namespace heapsnap {

bool SoleThreadHold::bears_another_look(TraceClock::time_point now) {
  if (now >= deadline_) return false;
  at_work_ = find_at_work();
  if (at_work_) {
    idle_since_.reset();
    return true;
  }
  if (!idle_since_) idle_since_ = now;
  return now - *idle_since_ < kLongestIdleness;
}

// One in uninterruptible sleep waits for a disk, not for the thread.
std::optional<int> SoleThreadHold::find_at_work() const {
  std::optional<int> newest;
  for (const int tid : proc_.task_list(pid_)) {
    if (tid == held_) continue;
    const auto task = proc_.try_stat(tid);
    if (task && (task->state == 'R' || task->state == 'D')) newest = tid;
  }
  return newest;
}

}  // namespace heapsnap
