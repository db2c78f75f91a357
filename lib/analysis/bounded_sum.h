// Sums of what files say: they stop at the largest number and do not wrap.
#pragma once

#include <cstdint>

namespace heapsnap {

constexpr uint64_t bounded_sum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

}  // namespace heapsnap
