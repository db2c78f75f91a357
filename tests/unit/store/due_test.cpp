#include "store/due.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr int64_t kNow = 1'800'000'000;

DueState state_of(uint64_t rss, std::optional<LastSnapshot> last = std::nullopt) {
  DueState state{kNow, rss, last, std::nullopt};
  if (last) state.last_of_target_s = last->time_s;
  return state;
}

}  // namespace

TEST_CASE("without rules a snapshot is due each time") {
  CHECK(judge_due({}, state_of(0)).is_due);
  CHECK(judge_due({}, state_of(kMiB, LastSnapshot{kNow, kMiB})).is_due);
}

TEST_CASE("rss_over is a condition for the others") {
  DueRules rules;
  rules.rss_over = 500 * kMiB;
  rules.every_s = 600;
  CHECK(!judge_due(rules, state_of(500 * kMiB)).is_due);
  CHECK(judge_due(rules, state_of(500 * kMiB + 1)).is_due);
  CHECK(!judge_due(rules, state_of(kMiB, LastSnapshot{kNow - 6000, kMiB})).is_due);
}

TEST_CASE("either the time or the growth makes it due") {
  DueRules rules;
  rules.every_s = 600;
  rules.grown_by_percent = 10;
  CHECK(judge_due(rules, state_of(100 * kMiB)).is_due);
  CHECK(!judge_due(rules, state_of(100 * kMiB, LastSnapshot{kNow - 599, 100 * kMiB})).is_due);
  CHECK(judge_due(rules, state_of(100 * kMiB, LastSnapshot{kNow - 600, 100 * kMiB})).is_due);
  CHECK(judge_due(rules, state_of(110 * kMiB, LastSnapshot{kNow - 1, 100 * kMiB})).is_due);
  CHECK(!judge_due(rules, state_of(109 * kMiB, LastSnapshot{kNow - 1, 100 * kMiB})).is_due);
  CHECK(!judge_due(rules, state_of(10 * kMiB, LastSnapshot{kNow - 1, 100 * kMiB})).is_due);
  rules.grown_by_percent.reset();
  rules.grown_by_bytes = 5 * kMiB;
  CHECK(judge_due(rules, state_of(105 * kMiB, LastSnapshot{kNow - 1, 100 * kMiB})).is_due);
  CHECK(!judge_due(rules, state_of(104 * kMiB, LastSnapshot{kNow - 1, 100 * kMiB})).is_due);
}

TEST_CASE("no snapshot comes sooner than min_interval, after a restart neither") {
  DueRules rules;
  rules.min_interval_s = 60;
  DueState state = state_of(kMiB);
  state.last_of_target_s = kNow - 59;
  CHECK(!judge_due(rules, state).is_due);
  state.last_of_target_s = kNow - 60;
  CHECK(judge_due(rules, state).is_due);
}

TEST_CASE("verdicts and rules say their figures") {
  DueRules rules;
  rules.rss_over = 500 * kMiB;
  rules.every_s = 600;
  rules.grown_by_percent = 10;
  rules.min_interval_s = 120;
  CHECK(to_text(rules) ==
        "with RSS over 500.0 MiB, every 10 min or when grown by 10 % since the last snapshot, "
        "never sooner than 2 min after the last");
  CHECK(judge_due(rules, state_of(kMiB)).why == "RSS is 1.0 MiB, not over 500.0 MiB");
  CHECK(judge_due(rules, state_of(520 * kMiB, LastSnapshot{kNow - 300, 510 * kMiB})).why ==
        "the last snapshot is 5 min old, one is due after 10 min, grown by 10.0 MiB since, not by "
        "10 %");
  CHECK(to_text(DueRules{}) == "each time");
  CHECK(span_text(-5) == "0 s");
  CHECK(span_text(47 * 3600) == "47 h");
  CHECK(span_text(14 * 86400) == "14 days");
}
