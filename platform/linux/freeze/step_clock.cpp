#include "platform/linux/freeze/step_clock.h"

#include <sched.h>

#include <thread>

#include "base/alteration.h"
#include "platform/linux/self/task_priority.h"

namespace heapsnap {

namespace {

// The copy may run where the thread may that made it.
bool has_one_processor(pid_t pid) {
  cpu_set_t allowed;
  return ::sched_getaffinity(pid, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) == 1;
}

}  // namespace

StepClock::~StepClock() {
  child_.end_priority();
  if (nice_before_) set_nice(child_.pid(), *nice_before_);
}

void StepClock::tick() {
  now_ = TraceClock::now();
  bool is_burst = bursts_.takes(now_);
  while (steps_wait() && bursts_.wait().count() > 0) {
    end_burst();
    check_end();
    std::this_thread::sleep_for(bursts_.wait());
    now_ = TraceClock::now();
    is_burst = bursts_.takes(now_);
  }
  if (!is_burst) {
    end_burst();
  } else if (!priority_) {
    priority_.emplace();
    has_bursts_ = make_realtime(child_.pid());
  }
}

void StepClock::leave_steps() {
  now_ = TraceClock::now();
  bursts_.leave(now_);
  end_burst();
  if (nice_before_ || has_one_processor(child_.pid())) return;
  nice_before_ = make_least_nice(child_.pid());
}

void StepClock::end_burst() {
  if (!priority_) return;
  child_.end_priority();
  priority_.reset();
}

}  // namespace heapsnap
