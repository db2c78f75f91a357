#include "base/clock.h"

#include <time.h>

namespace heapsnap {

namespace {

int64_t read_clock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

int64_t realtime_ns() {
  return read_clock(CLOCK_REALTIME);
}

uint64_t monotonic_ns() {
  return static_cast<uint64_t>(read_clock(CLOCK_MONOTONIC));
}

}  // namespace heapsnap
