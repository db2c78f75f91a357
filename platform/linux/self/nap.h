#pragma once

#include <chrono>

namespace heapsnap {

// Sleeps for that long, less when a signal handler ran meanwhile.
void nap(std::chrono::microseconds duration);

}  // namespace heapsnap
