#include "platform/linux/self/nap.h"

#include <time.h>

namespace heapsnap {

void nap(std::chrono::microseconds duration) {
  const timespec time{duration.count() / 1'000'000, duration.count() % 1'000'000 * 1000};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

}  // namespace heapsnap
