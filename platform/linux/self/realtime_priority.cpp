#include "platform/linux/self/realtime_priority.h"

#include "platform/linux/self/realtime_limit.h"
#include "platform/linux/self/task_priority.h"

namespace heapsnap {

RealtimePriority::RealtimePriority() noexcept {
  policy_before_ = ::sched_getscheduler(0);
  if (policy_before_ < 0 || ::sched_getparam(0, &parameters_before_) != 0) return;
  const int flag = policy_before_ & SCHED_RESET_ON_FORK;  // stays without CAP_SYS_NICE
  const int least = parameters_before_.sched_priority + 1;
  const bool is_low =
      is_ordinary(policy_before_) || (is_realtime(policy_before_) && least <= tracer_priority());
  if (!is_low || !may_be_realtime(0)) return;  // keep what is set
  // A real-time limit may allow only lower ones. At 1 nothing is inherited.
  for (int priority = tracer_priority(); priority >= least && !raised_; --priority) {
    raised_ = set_policy(0, SCHED_FIFO | flag, priority);
  }
}

RealtimePriority::~RealtimePriority() {
  if (raised_) set_policy(0, policy_before_, parameters_before_.sched_priority);
}

bool gets_realtime_priority() noexcept {
  const RealtimePriority priority;
  return is_realtime(::sched_getscheduler(0));
}

}  // namespace heapsnap
