#pragma once

#include <chrono>

namespace heapsnap {

// Sleeps for `duration`, or less if a signal handler runs meanwhile.
void nap(std::chrono::microseconds duration);

}  // namespace heapsnap
