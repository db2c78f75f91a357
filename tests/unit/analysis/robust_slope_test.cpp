#include "analysis/robust_slope.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

using namespace heapsnap;

namespace {

std::vector<TimedValue> straight_line(size_t count, double slope, double offset = 0,
                                      size_t run = 0) {
  std::vector<TimedValue> points;
  for (size_t i = 0; i < count; ++i) {
    const auto time = static_cast<double>(i);
    points.push_back({time, offset + slope * time, run});
  }
  return points;
}

}  // namespace

TEST_CASE("a line has its slope, and an interval from five points on") {
  for (const size_t count : {2U, 3U, 4U}) {
    const auto slope = fit_slope(straight_line(count, 3));
    REQUIRE(slope);
    CHECK(slope->per_second == doctest::Approx(3));
    CHECK(!slope->interval);
    CHECK(!slope->grows_significantly());
  }
  const auto slope = fit_slope(straight_line(5, 3, 7));
  REQUIRE(slope);
  REQUIRE(slope->interval);
  CHECK(slope->interval->low == doctest::Approx(3));
  CHECK(slope->interval->high == doctest::Approx(3));
  CHECK(slope->offset == doctest::Approx(7));
  CHECK(slope->grows_significantly());
}

TEST_CASE("one point, or points at one time, have no slope") {
  CHECK(!fit_slope({}));
  CHECK(!fit_slope(straight_line(1, 3)));
  CHECK(!fit_slope(std::vector<TimedValue>{{5, 1, 0}, {5, 2, 0}}));
  CHECK(!fit_slope(std::vector<TimedValue>{{1, 1, 0}, {2, 2, 1}}));  // two runs
}

TEST_CASE("what stays the same neither grows nor shrinks") {
  const auto slope = fit_slope(straight_line(50, 0, 100));
  REQUIRE(slope);
  CHECK(slope->per_second == 0);
  CHECK(!slope->grows_significantly());
  CHECK(!slope->shrinks_significantly());
}

TEST_CASE("outliers do not move it") {
  auto points = straight_line(40, 10);
  for (size_t i = 3; i < points.size(); i += 6) points[i].value += 1e6;
  const auto slope = fit_slope(points);
  REQUIRE(slope);
  CHECK(slope->per_second == doctest::Approx(10).epsilon(0.01));
}

TEST_CASE("a restart is no shrinking") {
  auto points = straight_line(10, 5, 1000);
  for (TimedValue point : straight_line(10, 5, 0, 1)) {
    point.time_s += 10;
    points.push_back(point);
  }
  const auto slope = fit_slope(points);
  REQUIRE(slope);
  CHECK(slope->per_second == doctest::Approx(5));
  CHECK(slope->grows_significantly());
  CHECK(slope->offset == doctest::Approx(-50));  // of the last run
}

TEST_CASE("the interval holds the true slope in 95 of 100 cases, more or less") {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 20);
  int held = 0;
  constexpr int kTrials = 400;
  for (int trial = 0; trial < kTrials; ++trial) {
    auto points = straight_line(15, 2);
    for (TimedValue& point : points) point.value += noise(random);
    const auto slope = fit_slope(points);
    REQUIRE(slope);
    REQUIRE(slope->interval);
    held += slope->interval->low <= 2 && 2 <= slope->interval->high ? 1 : 0;
  }
  CHECK(held >= kTrials * 92 / 100);
  CHECK(held <= kTrials * 99 / 100);
}

TEST_CASE("very many points are thinned out") {
  const auto slope = fit_slope(straight_line(20'000, 2));
  REQUIRE(slope);
  CHECK(slope->per_second == doctest::Approx(2));
}
