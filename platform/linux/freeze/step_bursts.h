// When steps of the copy are taken with real-time priority.
//
// The target runs while its copy is stepped, so that may take a while. But on a busy machine each
// step waits for the processor, for seconds where the target's group has a small share of it. So
// heapsnap takes the processor for short bursts, for itself and the copy: at once, as most calls
// end soon, and later for a tenth of the time. Other steps are taken in between, until one shows
// that they wait.
#pragma once

#include <chrono>

#include "platform/linux/trace/tracee.h"

namespace heapsnap {

class StepBursts {
 public:
  explicit StepBursts(TraceClock::time_point begin) : begin_(begin), now_(begin) {}

  // Asked before each step, at `now`, which does not fall: whether that one is of a burst.
  bool takes(TraceClock::time_point now);
  // Whether one that was of no burst had to.
  bool steps_wait() const { return steps_wait_; }
  // How long it is, if that one is not, until the next burst: time that is lost on steps. 0: they
  // are fast enough.
  TraceClock::duration wait() const;

 private:
  static constexpr int kShare = 10;
  static constexpr std::chrono::milliseconds kShortest{2};
  static constexpr std::chrono::milliseconds kLongest{10};
  static constexpr std::chrono::milliseconds kSlowStep{4};

  TraceClock::time_point begin_;
  TraceClock::time_point now_;
  TraceClock::duration used_{};  // of its share
  TraceClock::duration left_{};
  bool is_burst_ = false;
  bool steps_wait_ = false;
};

}  // namespace heapsnap
