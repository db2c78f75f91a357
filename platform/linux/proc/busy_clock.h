// How many processors a process keeps busy, by its CPU clock (clock_getcpuclockid(3)): no more than
// that can write to its memory at a time.
#pragma once

#include <time.h>

#include <chrono>
#include <optional>

namespace heapsnap {

class BusyClock {
 public:
  // Starts measuring.
  explicit BusyClock(int pid);

  // Average number of processors that it kept busy since construction or restart(); nullopt if it
  // is gone or too little time has passed to tell.
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
