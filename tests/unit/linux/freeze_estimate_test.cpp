#include "platform/linux/freeze/freeze_estimate.h"

#include <doctest/doctest.h>

using namespace heapsnap;

TEST_CASE("a small heap is read while it is stopped, unless heapsnap gets little of a processor") {
  const FreezeEstimate estimate = estimate_freeze(500'000, 2);
  CHECK_FALSE(estimate.prefers_fork());
  CHECK_FALSE(estimate.with_processors(2).prefers_fork());
  CHECK(estimate.with_processors(2).stop == estimate.stop);
  const FreezeEstimate throttled = estimate.with_processors(0.02);
  CHECK(throttled.prefers_fork());
  CHECK(throttled.stop >= 49 * estimate.stop);
  CHECK(throttled.fork == estimate.fork);
  CHECK(estimate.with_processors(0).stop > throttled.stop);
}
