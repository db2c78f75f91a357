#include "platform/linux/freeze/step_bursts.h"

#include <algorithm>

namespace heapsnap {

bool StepBursts::takes(TraceClock::time_point now) {
  const TraceClock::duration step = last_ ? now - *last_ : TraceClock::duration::zero();
  if (is_burst_) {
    used_ += step;
  } else if (try_again_) {  // what took time was no step, but the sleep until this burst
    if (now >= *try_again_) try_again_.reset();
  } else if (step > kSlowStep) {
    try_again_ = now + step * kShare;
  }
  last_ = now;
  const TraceClock::duration share = kShortest + (now - begin_) / kShare;
  used_ = std::clamp<TraceClock::duration>(used_, share - kLongest, share + kLongest);
  left_ = share - used_;
  is_burst_ = left_ >= (is_burst_ ? TraceClock::duration(1) : kShortest);
  return is_burst_;
}

void StepBursts::leave(TraceClock::time_point now) {
  if (is_burst_ && last_) used_ += now - *last_;
  is_burst_ = false;
  last_.reset();
}

TraceClock::duration StepBursts::wait() const {
  if (is_burst_ || !try_again_) return {};
  return (kShortest - left_) * kShare;
}

}  // namespace heapsnap
