#include "base/clock.h"

#include <time.h>

#include <algorithm>

namespace heapsnap {

namespace {

timespec read_clock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return now;
}

int64_t count_ns(const timespec& time) {
  return std::clamp(int64_t{time.tv_sec}, -kLastClockSecond, kLastClockSecond) * 1'000'000'000 +
         time.tv_nsec;
}

}  // namespace

int64_t realtime_ns() {
  return count_ns(read_clock(CLOCK_REALTIME));
}

int64_t realtime_s() {
  return read_clock(CLOCK_REALTIME).tv_sec;
}

uint64_t monotonic_ns() {
  return static_cast<uint64_t>(count_ns(read_clock(CLOCK_MONOTONIC)));
}

}  // namespace heapsnap
