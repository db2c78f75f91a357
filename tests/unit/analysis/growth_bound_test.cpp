#include "analysis/growth_bound.h"

#include <doctest/doctest.h>

#include <optional>

using namespace heapsnap;

TEST_CASE("a bound is a share of what was there, or a number of bytes") {
  const GrowthBound share{"10%", 0.1, 0};
  CHECK(!share.is_past(1000, 100));
  CHECK(share.is_past(1000, 101));
  CHECK(!share.is_past(1000, -500));
  CHECK(share.is_past(0, 1));
  const GrowthBound bytes{"4096", std::nullopt, 4096};
  CHECK(!bytes.is_past(0, 4096));
  CHECK(bytes.is_past(1e12, 4097));
}
