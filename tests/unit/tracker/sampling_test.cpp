#include "tracker/sampling.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tracker/table_layout.h"

using namespace heapsnap::tracker;

TEST_CASE("logarithm and exponential agree with libm") {
  for (double x = 1e-17; x < 1e17; x *= 1.37) {
    CHECK(natural_logarithm(x) == doctest::Approx(std::log(x)).epsilon(1e-13));
  }
  for (double x = -700; x < -1e-12; x *= 0.93) {
    CHECK(exp_minus_one(x) == doctest::Approx(std::expm1(x)).epsilon(1e-13));
  }
  CHECK(exp_minus_one(0) == 0);
  CHECK(exp_minus_one(-1e9) == -1);
}

TEST_CASE("distances have the mean and the spread of an exponential") {
  RandomNumbers random(42);
  constexpr double kMean = 524288;
  constexpr int kDraws = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto distance = static_cast<double>(random.distance(524288));
    REQUIRE(distance >= 0);
    sum += distance;
    squares += distance * distance;
  }
  CHECK(sum / kDraws == doctest::Approx(kMean).epsilon(0.01));
  CHECK(squares / kDraws == doctest::Approx(2 * kMean * kMean).epsilon(0.03));
}

TEST_CASE("a weight is the inverse of the chance to be seen") {
  const Weight small = weight_of(32, 524288);
  CHECK(static_cast<double>(small.count) / kSampledCountUnit ==
        doctest::Approx(16384.5).epsilon(1e-4));
  CHECK(small.bytes == doctest::Approx(524304).epsilon(1e-4));
  const Weight large = weight_of(1ULL << 40, 524288);  // seen for sure
  CHECK(large.count == kSampledCountUnit);
  CHECK(large.bytes == 1ULL << 40);
  CHECK(weight_of(0, 524288).bytes == 0);
}
