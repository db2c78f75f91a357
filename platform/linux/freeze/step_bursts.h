// When steps of the copy are taken with real-time priority.
//
// The target runs while its copy is stepped, so that may take a while. But on a busy machine each
// step waits for the processor, for seconds where the target's group has a small share of it. So
// heapsnap takes the processor for short bursts, for itself and the copy: at once, as most calls
// end soon, and later for a tenth of the time. Other steps are taken in between, as long as they
// are fast. After one that had to wait for the processor, there are only bursts for ten times as
// long as it took. Then another one is tried: what took time may have been a stop of heapsnap.
#pragma once

#include <chrono>
#include <optional>

#include "platform/linux/trace/tracee.h"

namespace heapsnap {

class StepBursts {
 public:
  explicit StepBursts(TraceClock::time_point begin) : begin_(begin) {}

  // Asked before each step, at `now`, which does not fall: whether that one is of a burst.
  bool takes(TraceClock::time_point now);
  // What comes now is no step, and of no burst.
  void leave(TraceClock::time_point now);
  // Whether the last step that was of no burst had to wait, and no other one is tried yet.
  bool steps_wait() const { return try_again_.has_value(); }
  // How long to sleep now, until the next burst. 0: take the step at once.
  TraceClock::duration wait() const;

 private:
  static constexpr int kShare = 10;
  static constexpr std::chrono::milliseconds kShortest{2};
  // Also after a long wait. What is taken beyond its share is paid back, but no more than this: a
  // burst may last long only where heapsnap itself was stopped.
  static constexpr std::chrono::milliseconds kLongest{10};
  static constexpr std::chrono::milliseconds kSlowStep{4};

  TraceClock::time_point begin_;
  std::optional<TraceClock::time_point> last_;  // when the last step was asked for
  TraceClock::duration used_{};                 // on bursts
  TraceClock::duration left_{};                 // of their share of the time; negative: overdrawn
  bool is_burst_ = false;                       // what takes() returned
  std::optional<TraceClock::time_point> try_again_;  // a step of no burst; unless the last was fast
};

}  // namespace heapsnap
