#include "tracker/sampling.h"

#include "tracker/floating_point.h"
#include "tracker/table_layout.h"

namespace heapsnap::tracker {

double natural_logarithm(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, 8);
  int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  bits = (bits & 0x000fffffffffffff) | 0x3ff0000000000000;
  double mantissa;
  __builtin_memcpy(&mantissa, &bits, 8);
  if (mantissa > 1.4142135623730951) {
    mantissa /= 2;
    ++exponent;
  }
  // ln m = 2 artanh(t), t = (m - 1) / (m + 1), |t| < 0.172: the 12th term is below 2^-60.
  const double t = (mantissa - 1) / (mantissa + 1);
  const double square = t * t;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return exponent * 0.6931471805599453 + 2 * t * sum;
}

double exp_minus_one(double x) {
  if (x < -745) return -1;
  // Halve until small, expand, and double again: e^2y - 1 = (e^y - 1) (e^y - 1 + 2).
  int halvings = 0;
  while (x < -0.5) {
    x /= 2;
    ++halvings;
  }
  double sum = 0;
  for (int k = 18; k >= 1; --k) sum = (sum + 1) * x / k;
  for (; halvings > 0; --halvings) sum *= sum + 2;
  return sum;
}

uint64_t RandomNumbers::next() {  // splitmix64
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t RandomNumbers::distance(uint64_t mean) {
  uint64_t bits = next() >> 11;
  const PlainFloatingPoint scope;
  scope.take(bits);
  scope.take(mean);
  const double uniform = (static_cast<double>(bits) + 0.5) * 0x1p-53;  // in (0, 1)
  const double bytes = -natural_logarithm(uniform) * static_cast<double>(mean);
  uint64_t distance = bytes < 0x1p62 ? static_cast<uint64_t>(bytes) + 1 : uint64_t{1} << 62;
  scope.take(distance);
  return distance;
}

Weight weight_of(uint64_t size, uint64_t sample_bytes) {
  if (size == 0) return {kSampledCountUnit, 0};
  const PlainFloatingPoint scope;
  scope.take(size);
  scope.take(sample_bytes);
  const double p = -exp_minus_one(-(static_cast<double>(size) / static_cast<double>(sample_bytes)));
  Weight weight{static_cast<uint64_t>(kSampledCountUnit / p + 0.5),
                static_cast<uint64_t>(static_cast<double>(size) / p + 0.5)};
  scope.take(weight.count);
  scope.take(weight.bytes);
  return weight;
}

}  // namespace heapsnap::tracker
