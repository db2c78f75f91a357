// The clocks of clock_gettime(2), in nanoseconds or seconds; the real time since 1970.
#pragma once

#include <cstdint>

namespace heapsnap {

// In 2262: until then the nanoseconds since 1970 fit into 64 bits.
inline constexpr int64_t kLastClockSecond = INT64_MAX / 1'000'000'000 - 1;

int64_t realtime_ns();  // not past kLastClockSecond
int64_t realtime_s();
uint64_t monotonic_ns();

}  // namespace heapsnap
