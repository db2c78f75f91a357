#include "platform/linux/self/realtime_priority.h"

#include <sys/resource.h>

namespace heapsnap {

RealtimePriority::RealtimePriority() noexcept {
  policy_before_ = ::sched_getscheduler(0);
  if (policy_before_ < 0 || ::sched_getparam(0, &parameters_before_) != 0) return;
  if (policy_before_ != SCHED_OTHER && policy_before_ != SCHED_BATCH) return;  // keep what is set
  if (has_realtime_limit(0)) return;
  // With a real-time limit of 1 only the lower one is available, and nothing is inherited.
  for (int priority = kTracerPriority; priority >= kInheritedPriority && !raised_; --priority) {
    sched_param raised{};
    raised.sched_priority = priority;
    raised_ = ::sched_setscheduler(0, SCHED_FIFO, &raised) == 0;
  }
}

bool has_realtime_limit(int tid) noexcept {
  rlimit limit{};
  return ::prlimit(tid, RLIMIT_RTTIME, nullptr, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

void make_realtime(int tid) noexcept {
  if (has_realtime_limit(tid)) return;
  sched_param lowest{};
  lowest.sched_priority = kInheritedPriority;
  ::sched_setscheduler(tid, SCHED_FIFO, &lowest);
}

RealtimePriority::~RealtimePriority() {
  if (raised_) ::sched_setscheduler(0, policy_before_, &parameters_before_);
}

}  // namespace heapsnap
