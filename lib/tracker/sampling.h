// Poisson samples over bytes: every byte has the same chance, 1 / mean, of being hit, and a block
// is recorded if any of its bytes is. So a block of size s is recorded with p = 1 - exp(-s / mean),
// and stands for 1 / p blocks. No libm in somebody else's process: the two functions needed are
// here.
#pragma once

#include <cstdint>

namespace heapsnap::tracker {

double natural_logarithm(double x);  // x > 0, normal
double exp_minus_one(double x);      // exp(x) - 1 for x <= 0, exact also where exp(x) is close to 1

class RandomNumbers {
 public:
  constexpr RandomNumbers() = default;
  explicit RandomNumbers(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // The byte that is hit next, counted from 1: exponentially distributed with this mean.
  uint64_t distance(uint64_t mean);

 private:
  uint64_t state_ = 0;
};

// What a block of `size` bytes is charged with. Numbers in units of 1 / kSampledCountUnit.
struct Weight {
  uint64_t count;
  uint64_t bytes;
};
Weight weight_of(uint64_t size, uint64_t sample_bytes);

}  // namespace heapsnap::tracker
