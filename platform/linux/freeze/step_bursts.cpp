#include "platform/linux/freeze/step_bursts.h"

#include <algorithm>

namespace heapsnap {

bool StepBursts::takes(TraceClock::time_point now) {
  if (is_burst_) {
    used_ += now - now_;
  } else if (now - now_ > kSlowStep) {
    steps_wait_ = true;
  }
  now_ = now;
  const TraceClock::duration share = kShortest + (now - begin_) / kShare;
  used_ = std::max<TraceClock::duration>(used_, share - kLongest);
  left_ = share - used_;
  is_burst_ = left_ >= (is_burst_ ? TraceClock::duration(1) : kShortest);
  return is_burst_;
}

TraceClock::duration StepBursts::wait() const {
  if (is_burst_ || !steps_wait_) return {};
  return (kShortest - left_) * kShare;
}

}  // namespace heapsnap
