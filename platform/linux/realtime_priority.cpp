#include "platform/linux/realtime_priority.h"

namespace heapsnap {

RealtimePriority::RealtimePriority() noexcept {
  policy_before_ = ::sched_getscheduler(0);
  if (policy_before_ < 0 || ::sched_getparam(0, &parameters_before_) != 0) return;
  if (policy_before_ != SCHED_OTHER && policy_before_ != SCHED_BATCH) return;  // as it was set up
  sched_param lowest{};
  lowest.sched_priority = ::sched_get_priority_min(SCHED_FIFO);
  raised_ = ::sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;
}

void make_realtime(int tid) noexcept {
  sched_param lowest{};
  lowest.sched_priority = ::sched_get_priority_min(SCHED_FIFO);
  ::sched_setscheduler(tid, SCHED_FIFO, &lowest);
}

RealtimePriority::~RealtimePriority() {
  if (raised_) ::sched_setscheduler(0, policy_before_, &parameters_before_);
}

}  // namespace heapsnap
