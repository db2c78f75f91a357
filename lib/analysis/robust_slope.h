// How fast a figure grows, by a fit that outliers do not move: Theil and Sen's.
//
// The slope is the median of the slopes of all pairs of points. Pairs are only made within a run of
// the program, so that a restart is no shrinking. The interval holds the true slope with 95 %
// probability (Sen 1968, with Kendall's variance corrected for ties, summed over runs); it is there
// from five points of one run on.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace heapsnap {

struct TimedValue {
  double time_s = 0;
  double value = 0;
  size_t run = 0;  // points of a run share the number and follow each other, by ascending time
};

struct Slope {
  double per_second = 0;
  // Of 95 %; without it the slope is a guess.
  struct Interval {
    double low = 0;
    double high = 0;
  };
  std::optional<Interval> interval;
  // Of the last run: its value at a time is offset + time * per_second, by its median point.
  double offset = 0;

  bool grows_significantly() const { return interval && interval->low > 0; }
  bool shrinks_significantly() const { return interval && interval->high < 0; }
};

// Nothing where no run has two points at different times. Of more than `kMostFitted` points every
// second, third, ... is taken.
inline constexpr size_t kMostFitted = 400;
std::optional<Slope> fit_slope(std::span<const TimedValue> points);

}  // namespace heapsnap
