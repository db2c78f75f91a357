// The clocks of clock_gettime(2), in nanoseconds or seconds; the real time since 1970.
#pragma once

#include <cstdint>

namespace heapsnap {

int64_t realtime_ns();  // until 2262; at that from then on
int64_t realtime_s();
uint64_t monotonic_ns();

}  // namespace heapsnap
