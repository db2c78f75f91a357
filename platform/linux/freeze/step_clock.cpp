#include "platform/linux/freeze/step_clock.h"

#include <thread>

#include "base/alteration.h"
#include "platform/linux/self/task_priority.h"

namespace heapsnap {

StepClock::~StepClock() {
  make_ordinary(child_);
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
    has_bursts_ = make_realtime(child_);
  }
}

void StepClock::leave_steps() {
  now_ = TraceClock::now();
  bursts_.leave(now_);
  end_burst();
}

void StepClock::end_burst() {
  if (!priority_) return;
  make_ordinary(child_);
  priority_.reset();
}

}  // namespace heapsnap
