#include "tracker/sampling.h"

#include <doctest/doctest.h>
#include <fenv.h>

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

TEST_CASE("a program's floating-point environment is neither used nor changed") {
  RandomNumbers plain(7);
  RandomNumbers odd(7);
  const uint64_t distance = plain.distance(4096);
  const Weight weight = weight_of(33, 4096);

  fenv_t before;
  REQUIRE(fegetenv(&before) == 0);
  feclearexcept(FE_ALL_EXCEPT);
  fesetround(FE_UPWARD);
  feenableexcept(FE_ALL_EXCEPT);  // an inexact result is a SIGFPE now
  const uint64_t odd_distance = odd.distance(4096);
  const Weight odd_weight = weight_of(33, 4096);
  const int raised = fetestexcept(FE_ALL_EXCEPT);
  const int enabled = fegetexcept();
  const int rounding = fegetround();
  fesetenv(&before);

  CHECK(odd_distance == distance);
  CHECK(odd_weight.count == weight.count);
  CHECK(odd_weight.bytes == weight.bytes);
  CHECK(raised == 0);
  CHECK(enabled == FE_ALL_EXCEPT);
  CHECK(rounding == FE_UPWARD);
}
