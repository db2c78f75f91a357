#include "analysis/watch_trigger.h"

#include <doctest/doctest.h>

#include <vector>

using namespace heapsnap;

namespace {

WatchLook look_with(uint64_t rss, uint64_t ms = 0, uint64_t swap = 0) {
  WatchLook look;
  look.monotonic_ns = ms * 1'000'000;
  look.rss = rss;
  look.swap = swap;
  return look;
}

WatchLook tracked(uint64_t allocated, uint64_t freed) {
  WatchLook look;
  look.tracker.emplace();
  look.tracker->allocated_bytes = allocated;
  look.tracker->freed_bytes = freed;
  return look;
}

// The looks, by index, at which a snapshot is taken.
std::vector<size_t> answered(const WatchRules& rules, const std::vector<WatchLook>& looks) {
  WatchTrigger trigger(rules, looks.front());
  std::vector<size_t> calls;
  for (size_t i = 0; i < looks.size(); ++i) {
    if (!trigger.judge(looks[i])) continue;
    trigger.answer(looks[i]);
    calls.push_back(i);
  }
  return calls;
}

std::vector<size_t> answered_rss(const WatchRules& rules, const std::vector<uint64_t>& sizes) {
  std::vector<WatchLook> looks;
  for (const uint64_t rss : sizes) looks.push_back(look_with(rss));
  return answered(rules, looks);
}

using Looks = std::vector<size_t>;

}  // namespace

TEST_CASE("each crossing of rss_over calls once") {
  WatchRules rules;
  rules.rss_over = 1000;
  CHECK(answered_rss(rules, {900, 1000, 1001, 2000, 1500}) == Looks{2});
  CHECK(answered_rss(rules, {1001, 1001, 1002}) == Looks{0});  // over it at the begin
  CHECK(answered_rss(rules, {900, 1001, 950, 1001}) == Looks{1, 3});
  CHECK(answered_rss(rules, {900, 1001, 951, 1001, 960, 1200}) == Looks{1});  // it wavers
  CHECK(answered_rss(rules, {900, 800}).empty());
}

TEST_CASE("growth calls each time, measured from the snapshot before") {
  WatchRules rules;
  rules.growth = 100;
  CHECK(answered_rss(rules, {1000, 1099, 1100, 1150, 1199, 1250, 1300}) == Looks{2, 5});
  CHECK(answered_rss(rules, {1000, 500, 599, 1099}).empty());
  // Pages that go to swap are no shrinking.
  CHECK(answered(rules, {look_with(1000), look_with(400, 0, 700)}) == Looks{1});
  // Of a tracked process it is live bytes.
  CHECK(answered(rules, {tracked(1000, 0), tracked(5000, 4950), tracked(5000, 3900)}) == Looks{2});
}

TEST_CASE("churn and time count from the snapshot before, whatever called for it") {
  WatchRules rules;
  rules.churn = 100;
  CHECK(answered(rules, {tracked(0, 0), tracked(60, 39), tracked(60, 40), tracked(110, 89),
                         tracked(110, 90)}) == Looks{2, 4});
  CHECK(answered(rules, {look_with(5), look_with(5)}).empty());
  rules.churn.reset();
  rules.every_ms = 50;
  CHECK(answered(rules, {look_with(1, 10), look_with(1, 59), look_with(1, 60), look_with(1, 100),
                         look_with(1, 111)}) == Looks{2, 4});
  rules.growth = 100;
  CHECK(answered(rules, {look_with(1, 10), look_with(200, 50), look_with(200, 60),
                         look_with(200, 100)}) == Looks{1, 3});
}

TEST_CASE("one snapshot answers all rules, and the first in order is told") {
  WatchRules rules;
  rules.rss_over = 1000;
  rules.growth = 100;
  WatchTrigger trigger(rules, look_with(950));
  const WatchLook now = look_with(1100);
  CHECK(trigger.judge(now) == WatchCall{WatchRule::kRssOver, 1100});
  CHECK(trigger.judge(now) == WatchCall{WatchRule::kRssOver, 1100});  // until it is answered
  CHECK(trigger.growth(now) == 150);
  trigger.answer(now);
  CHECK_FALSE(trigger.judge(now));
  CHECK(trigger.growth(now) == 0);
  CHECK(trigger.judge(look_with(1200)) == WatchCall{WatchRule::kGrowth, 100});
}

TEST_CASE("a snapshot for growth beyond rss_over is one for that, too") {
  WatchRules rules;
  rules.rss_over = 1000;
  rules.growth = 100;
  CHECK(answered_rss(rules, {900, 1050, 1060, 1150, 1160}) == Looks{1, 3});
}

TEST_CASE("recording that started over counts from there") {
  WatchRules rules;
  rules.churn = 100;
  CHECK(answered(rules, {tracked(5000, 0), tracked(40, 0), tracked(139, 0), tracked(140, 0)}) ==
        Looks{3});
  // Time does not.
  WatchRules by_time;
  by_time.every_ms = 50;
  const auto at = [](uint64_t ms, uint64_t allocated) {
    WatchLook look = tracked(allocated, 0);
    look.monotonic_ns = ms * 1'000'000;
    return look;
  };
  CHECK(answered(by_time, {at(10, 500), at(40, 5), at(59, 6), at(60, 7)}) == Looks{3});
  WatchTrigger trigger(rules, tracked(5000, 0));
  trigger.start_over(tracked(7000, 0));
  CHECK_FALSE(trigger.judge(tracked(7099, 0)));
  CHECK(trigger.judge(tracked(7100, 0)) == WatchCall{WatchRule::kChurn, 100});
}
