#include "store/retention.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace heapsnap;

namespace {

constexpr int64_t kHour = 3600;
constexpr int64_t kDay = 24 * kHour;
constexpr int64_t kMonday = 1767571200;  // 2026-01-05T00:00:00Z

// `count` files of one process, `step` apart, the last one at `end`; oldest first.
std::vector<RetainedFile> series(int64_t end, int64_t step, size_t count, size_t folder = 0) {
  std::vector<RetainedFile> files;
  for (size_t i = count; i-- > 0;) {
    files.push_back({folder, end - static_cast<int64_t>(i) * step, 1, 100});
  }
  return files;
}

std::vector<int64_t> kept_times(const RetentionRules& rules, const std::vector<RetainedFile>& files,
                                int64_t now) {
  const std::vector<Fate> fates = plan_retention(rules, files, now);
  std::vector<int64_t> kept;
  for (size_t i = 0; i < files.size(); ++i) {
    if (fates[i] == Fate::kKept) kept.push_back(files[i].time_s);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace

TEST_CASE("without rules all is kept") {
  const auto files = series(kMonday, kHour, 50);
  CHECK(kept_times({}, files, kMonday + 400 * kDay).size() == 50);
  CHECK(plan_retention({}, {}, kMonday).empty());
}

TEST_CASE("last keeps the newest of each folder") {
  auto files = series(kMonday, 60, 10, 0);
  const auto others = series(kMonday - kDay, 60, 2, 1);
  files.insert(files.end(), others.begin(), others.end());
  RetentionRules rules;
  rules.last = 3;
  const auto fates = plan_retention(rules, files, kMonday);
  CHECK(std::count(fates.begin(), fates.begin() + 10, Fate::kKept) == 3);
  CHECK(std::count(fates.begin() + 10, fates.end(), Fate::kKept) == 2);
  CHECK(fates[9] == Fate::kKept);
  CHECK(fates[0] == Fate::kNotCounted);
}

TEST_CASE("periods keep the newest one of each") {
  RetentionRules rules;
  rules.hourly = 2;
  // Each quarter of an hour: 23:00 to 23:45 of the day before, then 0:00.
  CHECK(kept_times(rules, series(kMonday, kHour / 4, 9), kMonday) ==
        std::vector<int64_t>{kMonday - kHour / 4, kMonday});
  rules = {};
  rules.daily = 3;
  CHECK(kept_times(rules, series(kMonday + kDay - 1, kHour, 100), kMonday + kDay) ==
        std::vector<int64_t>{kMonday - kDay - 1, kMonday - 1, kMonday + kDay - 1});
  rules = {};
  rules.weekly = 2;
  CHECK(kept_times(rules, series(kMonday, kDay, 20), kMonday) ==
        std::vector<int64_t>{kMonday - kDay, kMonday});
}

TEST_CASE("periods without snapshots are not counted") {
  RetentionRules rules;
  rules.daily = 3;
  const std::vector<RetainedFile> files = {
      {0, kMonday, 1, 1}, {0, kMonday - 30 * kDay, 1, 1}, {0, kMonday - 300 * kDay, 1, 1}};
  CHECK(kept_times(rules, files, kMonday).size() == 3);
}

TEST_CASE("a period keeps one of each process, last counts them together") {
  const std::vector<RetainedFile> files = {
      {0, kMonday, 7, 1}, {0, kMonday + 1, 8, 1}, {0, kMonday + 60, 7, 1}, {0, kMonday + 61, 8, 1}};
  RetentionRules rules;
  rules.hourly = 1;
  CHECK(kept_times(rules, files, kMonday + 61) == std::vector<int64_t>{kMonday + 60, kMonday + 61});
  rules = {};
  rules.last = 3;
  CHECK(kept_times(rules, files, kMonday + 61).size() == 3);
}

TEST_CASE("age and size take away what counts would keep, but never the newest of a folder") {
  RetentionRules rules;
  rules.last = 10;
  rules.max_age_s = 2 * kHour;
  const auto files = series(kMonday, kHour, 10);
  CHECK(kept_times(rules, files, kMonday).size() == 3);
  CHECK(kept_times(rules, files, kMonday + 400 * kDay) == std::vector<int64_t>{kMonday});
  rules = {};
  rules.max_bytes = 450;
  CHECK(kept_times(rules, files, kMonday) ==
        std::vector<int64_t>{kMonday - 3 * kHour, kMonday - 2 * kHour, kMonday - kHour, kMonday});
  rules.max_bytes = 1;
  CHECK(kept_times(rules, files, kMonday) == std::vector<int64_t>{kMonday});
}

TEST_CASE("what does not fit goes from the oldest on, over all folders") {
  auto files = series(kMonday, kHour, 3, 0);
  const auto others = series(kMonday - 10 * kHour, kHour, 3, 1);
  files.insert(files.end(), others.begin(), others.end());
  RetentionRules rules;
  rules.max_bytes = 400;
  const auto fates = plan_retention(rules, files, kMonday);
  CHECK(fates == std::vector<Fate>{Fate::kKept, Fate::kKept, Fate::kKept, Fate::kNoRoom,
                                   Fate::kNoRoom, Fate::kKept});
}

TEST_CASE("snapshots from the future stay, and take the place of no other") {
  auto files = series(kMonday, kHour, 5);
  const auto ahead = series(kMonday + 100 * kDay, kDay, 5);
  files.insert(files.end(), ahead.begin(), ahead.end());
  const auto check = [&](const RetentionRules& rules, const std::vector<int64_t>& kept) {
    CHECK(kept_times(rules, files, kMonday) == kept);
    const auto fates = plan_retention(rules, files, kMonday);
    CHECK(std::count(fates.begin() + 5, fates.end(), Fate::kInFuture) == 5);
  };
  RetentionRules rules;
  rules.last = 2;
  check(rules, {kMonday - kHour, kMonday});
  rules = {};
  rules.daily = 1;
  check(rules, {kMonday});
  rules = {};
  rules.max_age_s = 1;
  check(rules, {kMonday});
  rules = {};
  rules.max_bytes = 200;
  check(rules, {kMonday - kHour, kMonday});
}

TEST_CASE("a clock that is kept in time makes no snapshot one from the future") {
  RetentionRules rules;
  rules.last = 1;
  CHECK(kept_times(rules, series(kMonday + 2, 1, 3), kMonday) == std::vector<int64_t>{kMonday + 2});
}
