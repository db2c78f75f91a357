#include "analysis/watch_look.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

WatchLook look_at(uint64_t ms, uint64_t rss) {
  WatchLook look;
  look.monotonic_ns = ms * 1'000'000;
  look.rss = rss;
  return look;
}

TrackerTotals totals_of(uint64_t allocations, uint64_t allocated, uint64_t freed) {
  TrackerTotals totals;
  totals.allocations = allocations;
  totals.allocated_bytes = allocated;
  totals.freed_bytes = freed;
  totals.recording = true;
  return totals;
}

}  // namespace

TEST_CASE("rates are of the interval between two looks") {
  WatchLook before = look_at(1000, 500);
  WatchLook now = look_at(1500, 400);
  auto rates = rates_between(before, now);
  REQUIRE(rates);
  CHECK(rates->seconds == doctest::Approx(0.5));
  CHECK(rates->rss == -200);
  CHECK(rates->live == 0);

  before.tracker = totals_of(10, 1000, 900);
  now.tracker = totals_of(30, 5000, 4000);
  rates = rates_between(before, now);
  REQUIRE(rates);
  CHECK(rates->allocations == 40);
  CHECK(rates->churn == 2 * (4000 + 3100));
  CHECK(rates->live == 2 * 900);
}

TEST_CASE("no time has no rates, and counts that start over rise by nothing") {
  CHECK_FALSE(rates_between(look_at(5, 1), look_at(5, 2)));
  CHECK_FALSE(rates_between(look_at(5, 1), look_at(4, 2)));
  WatchLook before = look_at(0, 0);
  WatchLook now = look_at(1000, 0);
  before.tracker = totals_of(1000, 1 << 20, 1 << 19);
  now.tracker = totals_of(3, 100, 50);
  const auto rates = rates_between(before, now);
  REQUIRE(rates);
  CHECK(rates->allocations == 0);
  CHECK(rates->churn == 0);
  CHECK(rates->live == 50 - (1 << 19));
}

TEST_CASE("rates that no number holds are the largest") {
  WatchLook before;
  WatchLook now = look_at(0, ~0ULL >> 1);
  now.monotonic_ns = 1;
  CHECK(rates_between(before, now)->rss == 9'000'000'000'000'000'000);
  CHECK(rates_between(WatchLook{}, now)->rss > 0);
}

TEST_CASE("what is held: live bytes where they are known, else resident memory and swap") {
  WatchLook look = look_at(0, 700);
  look.swap = 30;
  CHECK(look.held_bytes() == 730);
  look.tracker = totals_of(1, 100, 150);
  CHECK(look.held_bytes() == -50);
}
