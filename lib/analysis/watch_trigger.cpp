#include "analysis/watch_trigger.h"

namespace heapsnap {

namespace {

constexpr uint64_t kNanosecondsPerMillisecond = 1'000'000;

uint64_t lower_limit(uint64_t limit) {
  return limit - limit / 20;
}

}  // namespace

int64_t WatchTrigger::growth(const WatchLook& now) const {
  return now.held_bytes() - mark_.held_bytes();
}

uint64_t WatchTrigger::churn(const WatchLook& now) const {
  if (!now.tracker || !mark_.tracker || now.tracker->churn() < mark_.tracker->churn()) return 0;
  return now.tracker->churn() - mark_.tracker->churn();
}

std::optional<WatchCall> WatchTrigger::judge(const WatchLook& now) {
  if (now.tracker && mark_.tracker && now.tracker->churn() < mark_.tracker->churn()) {
    mark_.tracker = now.tracker;  // recording started over
  }
  if (rules_.rss_over) {
    if (now.rss <= lower_limit(*rules_.rss_over)) is_over_ = false;
    if (!is_over_ && now.rss > *rules_.rss_over) return WatchCall{WatchRule::kRssOver, now.rss};
  }
  if (rules_.churn && churn(now) >= *rules_.churn) return WatchCall{WatchRule::kChurn, churn(now)};
  const int64_t grown = growth(now);
  if (rules_.growth && grown > 0 && static_cast<uint64_t>(grown) >= *rules_.growth) {
    return WatchCall{WatchRule::kGrowth, static_cast<uint64_t>(grown)};
  }
  const uint64_t passed_ns = now.monotonic_ns - mark_.monotonic_ns;
  if (rules_.every_ms && passed_ns / kNanosecondsPerMillisecond >= *rules_.every_ms) {
    return WatchCall{WatchRule::kEvery, passed_ns};
  }
  return std::nullopt;
}

void WatchTrigger::answer(const WatchLook& now) {
  mark_ = now;
  if (rules_.rss_over && now.rss > *rules_.rss_over) is_over_ = true;
}

}  // namespace heapsnap
