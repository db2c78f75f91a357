#include "analysis/stack_rates.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

constexpr uint64_t kOneSecond = 1'000'000'000;

AllocationSite counted_site(uint64_t allocations, uint64_t frees, uint64_t allocated,
                            uint64_t freed) {
  AllocationSite made;
  made.allocations = allocations;
  made.frees = frees;
  made.allocated_bytes = allocated;
  made.freed_bytes = freed;
  return made;
}

}  // namespace

TEST_CASE("rates are of the interval, what is live of all time") {
  StackRates rates;
  CallStacks stacks;
  stacks.sites = {{}, {}, counted_site(10, 4, 1000, 400), counted_site(2, 2, 50, 50)};
  auto first = rates.next(stacks, kOneSecond, StackMeasure::kLive, 10);
  REQUIRE(first.size() == 1);  // the last one holds nothing and did nothing
  CHECK(rates.busy() == 1);
  CHECK(first[0].stack == 2);
  CHECK(first[0].live_bytes == 600);
  CHECK(first[0].live_blocks == 6);
  CHECK(first[0].churn_per_s == 0);
  stacks.sites[2] = counted_site(30, 14, 3000, 1600);
  stacks.sites[3] = counted_site(6, 6, 250, 250);
  stacks.sites.push_back(counted_site(1, 0, 7000, 0));
  const auto second = rates.next(stacks, 3 * kOneSecond, StackMeasure::kLive, 10);
  REQUIRE(second.size() == 3);
  CHECK(second[0].stack == 4);
  CHECK(second[0].live_per_s == 3500);
  CHECK(second[1].stack == 2);
  CHECK(second[1].live_per_s == 400);
  CHECK(second[1].churn_per_s == 1600);
  CHECK(second[1].allocations_per_s == doctest::Approx(10));
  CHECK(second[2].stack == 3);
  CHECK(second[2].live_per_s == 0);
  CHECK(second[2].churn_per_s == 200);
}

TEST_CASE("only the highest are kept, equal ones by number") {
  StackRates rates;
  CallStacks stacks;
  for (uint64_t i = 0; i < 1000; ++i)
    stacks.sites.push_back(counted_site(1, 0, 1 + i * 7919 % 100, 0));
  const auto rows = rates.next(stacks, kOneSecond, StackMeasure::kLive, 15);
  CHECK(rates.busy() == 1000);
  REQUIRE(rows.size() == 15);
  for (size_t i = 0; i < 10; ++i) CHECK(rows[i].live_bytes == 100);
  for (size_t i = 1; i < 10; ++i) CHECK(rows[i - 1].stack < rows[i].stack);
  CHECK(rows[10].live_bytes == 99);
  CHECK(rates.next(stacks, 2 * kOneSecond, StackMeasure::kLive, 0).empty());
}

TEST_CASE("sampled stacks count in blocks") {
  StackRates rates;
  CallStacks stacks;
  stacks.sites = {
      counted_site(tracker::kSampledCountUnit * 8, tracker::kSampledCountUnit * 2, 800, 200)};
  stacks.sites[0].sample_bytes = 4096;
  CHECK(rates.next(stacks, kOneSecond, StackMeasure::kBlocks, 5)[0].live_blocks ==
        doctest::Approx(6));
}

TEST_CASE(
    "recording that began anew has no rates, and more freed than allocated is shown as that") {
  StackRates rates;
  CallStacks stacks;
  stacks.sites = {counted_site(100, 0, 10'000, 0), counted_site(5, 0, 50, 0)};
  rates.next(stacks, kOneSecond, StackMeasure::kLive, 5);
  stacks.sites = {counted_site(1, 3, 10, 60)};
  auto rows = rates.next(stacks, 2 * kOneSecond, StackMeasure::kLive, 5);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].live_bytes == -50);
  CHECK(rows[0].live_per_s == 0);
  stacks.sites = {counted_site(0, 3, 0, 60)};  // as many stacks, lower counts
  rows = rates.next(stacks, 3 * kOneSecond, StackMeasure::kLive, 5);
  CHECK(rows[0].churn_per_s == 0);
  // No time passed.
  stacks.sites[0].allocated_bytes = 500;
  CHECK(rates.next(stacks, 3 * kOneSecond, StackMeasure::kLive, 5)[0].churn_per_s == 0);
}

TEST_CASE("counts of a damaged table overflow nothing") {
  StackRates rates;
  CallStacks stacks;
  stacks.sites = {counted_site(0, UINT64_MAX, 0, UINT64_MAX)};
  rates.next(stacks, 1, StackMeasure::kChurn, 5);
  stacks.sites = {counted_site(UINT64_MAX, 0, UINT64_MAX, UINT64_MAX)};
  const auto rows = rates.next(stacks, 2, StackMeasure::kChurn, 5);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].churn_per_s > uint64_t{1} << 60);
  // From the most that can be live to the least.
  StackRates falling;
  stacks.sites = {counted_site(1, 0, INT64_MAX, 0)};
  falling.next(stacks, kOneSecond, StackMeasure::kLive, 5);
  stacks.sites = {counted_site(1, 0, INT64_MAX, UINT64_MAX)};
  const auto fallen = falling.next(stacks, 2 * kOneSecond, StackMeasure::kLive, 5);
  REQUIRE(fallen.size() == 1);
  CHECK(fallen[0].live_per_s < -(int64_t{1} << 60));
}
