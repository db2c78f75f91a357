#include "platform/linux/freeze/freeze_estimate.h"

#include <doctest/doctest.h>

using namespace heapsnap;

TEST_CASE("a small heap is read while it is stopped, unless heapsnap gets little of a processor") {
  const FreezeEstimate estimate = estimate_freeze(500'000, 2, 40);
  CHECK_FALSE(estimate.prefers_fork());
  CHECK_FALSE(estimate.with_processors(2).prefers_fork());
  CHECK(estimate.with_processors(2).stop == estimate.stop);
  const FreezeEstimate throttled = estimate.with_processors(0.02);
  CHECK(throttled.prefers_fork());
  CHECK(throttled.stop >= 49 * estimate.stop);
  CHECK(throttled.fork == estimate.fork);
  CHECK(estimate.with_processors(0).stop > throttled.stop);
}

TEST_CASE("what a fork omits is read while the target is stopped") {
  const FreezeEstimate estimate = estimate_freeze(90'000'000, 7, 345);
  REQUIRE(estimate.prefers_fork());
  CHECK(estimate.text().find("omits") == std::string::npos);
  const FreezeEstimate little = estimate.with_kept(20'000'000);
  CHECK(little.prefers_fork());
  CHECK(little.text().find("and reading the 19.1 MiB that a fork omits should") !=
        std::string::npos);
  CHECK_FALSE(estimate.with_kept(70'000'000).prefers_fork());
  // Scanned in the copy, it does not add to the pause.
  CHECK(estimate.with_scan().with_kept(70'000'000).prefers_fork());
}

TEST_CASE("many mappings take long either way, to read the list of them somewhat longer") {
  const FreezeEstimate few = estimate_freeze(100'000, 1, 30);
  const FreezeEstimate many = estimate_freeze(100'000, 1, 20'000);
  CHECK_FALSE(few.prefers_fork());
  CHECK(many.prefers_fork());
  CHECK(many.fork >= std::chrono::milliseconds(10));
  CHECK(many.stop >= std::chrono::milliseconds(10));
}
