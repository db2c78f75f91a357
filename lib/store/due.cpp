#include "store/due.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count_text.h"

namespace heapsnap {

namespace {

std::string grown_text(const DueRules& rules) {
  if (rules.grown_by_bytes) return size_text(*rules.grown_by_bytes);
  return fmt::format("{} %", *rules.grown_by_percent);
}

bool asks_for_growth(const DueRules& rules) {
  return rules.grown_by_bytes || rules.grown_by_percent;
}

bool has_grown(const DueRules& rules, uint64_t before, uint64_t now) {
  if (now <= before) return false;
  const uint64_t growth = now - before;
  if (rules.grown_by_bytes) return growth >= *rules.grown_by_bytes;
  return static_cast<double>(growth) >=
         static_cast<double>(before) * *rules.grown_by_percent / 100.0;
}

}  // namespace

std::string span_text(int64_t seconds) {
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 60 * kMinute;
  constexpr int64_t kDay = 24 * kHour;
  const auto count = [](int64_t number) { return count_text(static_cast<uint64_t>(number)); };
  seconds = std::max<int64_t>(seconds, 0);
  if (seconds < kMinute) return fmt::format("{} s", seconds);
  if (seconds < kHour) return fmt::format("{} min", seconds / kMinute);
  if (seconds < 2 * kDay) return fmt::format("{} h", seconds / kHour);
  return fmt::format("{} days", count(seconds / kDay));
}

DueVerdict judge_due(const DueRules& rules, const DueState& state) {
  if (rules.rss_over && state.rss <= *rules.rss_over) {
    return {false, fmt::format("RSS is {}, not over {}", size_text(state.rss),
                               size_text(*rules.rss_over))};
  }
  if (state.last_of_target_s) {
    const int64_t age = state.now_s - *state.last_of_target_s;
    if (age < rules.min_interval_s) {
      return {false, fmt::format("the last snapshot is {} old, and min_interval is {}",
                                 span_text(age), span_text(rules.min_interval_s))};
    }
  }
  if (!state.last) return {true, "there is no snapshot of this process yet"};
  if (!rules.every_s && !asks_for_growth(rules)) return {true, "each time"};
  const int64_t age = state.now_s - state.last->time_s;
  if (rules.every_s && age >= *rules.every_s) {
    return {true, fmt::format("the last snapshot is {} old", span_text(age))};
  }
  if (asks_for_growth(rules) && state.last->rss != 0 &&
      has_grown(rules, state.last->rss, state.rss)) {
    return {true, fmt::format("grown by {} since the last snapshot",
                              size_text(state.rss - state.last->rss))};
  }
  std::string why = fmt::format("the last snapshot is {} old", span_text(age));
  if (rules.every_s) why += fmt::format(", one is due after {}", span_text(*rules.every_s));
  if (asks_for_growth(rules) && state.last->rss != 0) {
    why += state.rss > state.last->rss
               ? fmt::format(", grown by {} since, not by {}",
                             size_text(state.rss - state.last->rss), grown_text(rules))
               : ", not grown since";
  }
  return {false, why};
}

std::string to_text(const DueRules& rules) {
  std::string text = rules.rss_over ? "with RSS over " + size_text(*rules.rss_over) + ", " : "";
  std::string when;
  if (rules.every_s) when = "every " + span_text(*rules.every_s);
  if (asks_for_growth(rules)) {
    when += std::string(when.empty() ? "" : " or ") + "when grown by " + grown_text(rules) +
            " since the last snapshot";
  }
  text += when.empty() ? "each time" : when;
  if (rules.min_interval_s > 0) {
    text += ", never sooner than " + span_text(rules.min_interval_s) + " after the last";
  }
  return text;
}

}  // namespace heapsnap
