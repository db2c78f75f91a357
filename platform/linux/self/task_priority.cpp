#include "platform/linux/self/task_priority.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>

#include "platform/linux/self/realtime_limit.h"

namespace heapsnap {

namespace {

constexpr int kHighestPriority = 99;  // sched(7)

std::atomic<int> inherited{1};

}  // namespace

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

bool is_realtime(int policy) noexcept {
  const int plain = policy & ~SCHED_RESET_ON_FORK;
  return plain == SCHED_FIFO || plain == SCHED_RR;
}

bool is_ordinary(int policy) noexcept {
  const int plain = policy & ~SCHED_RESET_ON_FORK;
  return plain == SCHED_OTHER || plain == SCHED_BATCH || plain == SCHED_IDLE;
}

bool set_policy(int tid, int policy, int priority) noexcept {
  sched_param parameters{};
  parameters.sched_priority = priority;
  return ::sched_setscheduler(tid, policy, &parameters) == 0;
}

bool make_realtime(int tid) noexcept {
  return may_be_realtime(tid) && set_policy(tid, SCHED_FIFO, inherited_priority());
}

void make_ordinary(int tid) noexcept {
  set_policy(tid, SCHED_OTHER, 0);
}

int make_least_nice(int tid) noexcept {
  const int before = ::getpriority(PRIO_PROCESS, static_cast<id_t>(tid));
  set_nice(tid, -20);
  return before;
}

void set_nice(int tid, int nice) noexcept {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(tid), nice);
}

}  // namespace heapsnap
