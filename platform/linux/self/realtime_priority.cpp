#include "platform/linux/self/realtime_priority.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>

#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

namespace {

constexpr int kHighestPriority = 99;  // sched(7)

std::atomic<int> inherited{1};

}  // namespace

bool is_realtime(int policy) noexcept {
  const int plain = policy & ~SCHED_RESET_ON_FORK;
  return plain == SCHED_FIFO || plain == SCHED_RR;
}

bool is_ordinary(int policy) noexcept {
  const int plain = policy & ~SCHED_RESET_ON_FORK;
  return plain == SCHED_OTHER || plain == SCHED_BATCH;
}

int inherited_priority() noexcept {
  return inherited;
}

int tracer_priority() noexcept {
  return inherited + 1;
}

void outrank(int tid) noexcept {
  sched_param parameters{};
  if (::sched_getparam(tid, &parameters) != 0) return;  // 0 unless it is real-time
  const int above = std::min(parameters.sched_priority + 1, kHighestPriority - 1);
  int lower = inherited;
  while (lower < above && !inherited.compare_exchange_weak(lower, above)) {
  }
}

RealtimePriority::RealtimePriority() noexcept {
  policy_before_ = ::sched_getscheduler(0);
  if (policy_before_ < 0 || ::sched_getparam(0, &parameters_before_) != 0) return;
  const int flag = policy_before_ & SCHED_RESET_ON_FORK;  // stays without CAP_SYS_NICE
  const int least = parameters_before_.sched_priority + 1;
  const bool is_low =
      is_ordinary(policy_before_) || (is_realtime(policy_before_) && least <= tracer_priority());
  if (!is_low || has_realtime_limit(0)) return;  // keep what is set
  // A real-time limit may allow only lower ones. At 1 nothing is inherited.
  for (int priority = tracer_priority(); priority >= least && !raised_; --priority) {
    sched_param raised{};
    raised.sched_priority = priority;
    raised_ = ::sched_setscheduler(0, SCHED_FIFO | flag, &raised) == 0;
  }
}

bool gets_realtime_priority() noexcept {
  const RealtimePriority priority;
  return is_realtime(::sched_getscheduler(0));
}

bool has_realtime_limit(int tid) noexcept {
  rlimit limit{};
  if (::prlimit(tid, RLIMIT_RTTIME, nullptr, &limit) == 0) return limit.rlim_cur != RLIM_INFINITY;
  // Of another user, without CAP_SYS_RESOURCE: what proc_pid_limits(5) shows to everybody.
  try {
    constexpr std::string_view kNone = "Max realtime timeout      unlimited ";
    const auto limits = ProcFs().try_read(tid, "limits");
    return !limits || limits->find(kNone) == std::string::npos;
  } catch (...) {
    return true;
  }
}

bool make_realtime(int tid) noexcept {
  if (has_realtime_limit(tid)) return false;
  sched_param parameters{};
  parameters.sched_priority = inherited_priority();
  return ::sched_setscheduler(tid, SCHED_FIFO, &parameters) == 0;
}

void make_ordinary(int tid) noexcept {
  const sched_param parameters{};
  ::sched_setscheduler(tid, SCHED_OTHER, &parameters);
}

RealtimePriority::~RealtimePriority() {
  if (raised_) ::sched_setscheduler(0, policy_before_, &parameters_before_);
}

}  // namespace heapsnap
