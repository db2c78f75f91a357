// How many processors a process keeps busy, by its CPU clock (clock_getcpuclockid(3)): the most
// that can write to its memory at a time.
#pragma once

#include <time.h>

#include <chrono>
#include <optional>

namespace heapsnap {

class BusyClock {
 public:
  // Begins to measure.
  explicit BusyClock(int pid);

  // Processors that it kept busy on average, from the beginning or from restart() on; nothing when
  // it is gone, or when that is too short a time ago to tell.
  std::optional<double> processors() const;
  void restart();

 private:
  std::optional<std::chrono::nanoseconds> used() const;

  clockid_t clock_ = 0;
  bool is_known_ = false;
  std::optional<std::chrono::nanoseconds> used_before_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace heapsnap
