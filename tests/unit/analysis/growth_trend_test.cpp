#include "analysis/growth_trend.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

constexpr double kDay = 86400;
constexpr TrendBounds kBounds;

Slope sure_slope(double per_second, double low, double high) {
  Slope slope;
  slope.per_second = per_second;
  slope.interval = Slope::Interval{low, high};
  return slope;
}

}  // namespace

TEST_CASE("less than an hour tells no trend, however steep and sure") {
  const Slope steep = sure_slope(1e6, 1e6, 1e6);
  CHECK(judge_trend(steep, {36, 36e6, 400e6}, kBounds) == Trend::kTooShort);
  CHECK(judge_trend(steep, {3599, 3599e6, 4e9}, kBounds) == Trend::kTooShort);
  CHECK(judge_trend(steep, {3600, 3600e6, 4e9}, kBounds) == Trend::kGrows);
  CHECK(judge_trend(steep, {36, 36e6, 400e6}, {.least_seconds = 1}) == Trend::kGrows);
}

TEST_CASE("less than one percent tells no trend") {
  CHECK(judge_trend(sure_slope(10, 9, 11), {kDay, 864000, 400e6}, kBounds) == Trend::kTooLittle);
  CHECK(judge_trend(sure_slope(100, 90, 110), {kDay, 8.64e6, 400e6}, kBounds) == Trend::kGrows);
  CHECK(judge_trend(sure_slope(-10, -11, -9), {kDay, -864000, 400e6}, kBounds) ==
        Trend::kTooLittle);
}

TEST_CASE("an interval on one side of 0 tells a trend") {
  const Observation observed{kDay, 0, 100e6};
  CHECK(judge_trend(sure_slope(100, -1, 200), observed, kBounds) == Trend::kUnsure);
  CHECK(judge_trend(sure_slope(-100, -200, -1), observed, kBounds) == Trend::kShrinks);
  Slope guess;
  guess.per_second = 100;
  CHECK(judge_trend(guess, observed, kBounds) == Trend::kTooFew);
  CHECK(judge_trend(std::nullopt, observed, kBounds) == Trend::kTooFew);
}
