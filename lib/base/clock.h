// The clocks of clock_gettime(2), in nanoseconds.
#pragma once

#include <cstdint>

namespace heapsnap {

int64_t realtime_ns();
uint64_t monotonic_ns();

}  // namespace heapsnap
