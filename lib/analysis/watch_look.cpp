#include "analysis/watch_look.h"

#include <algorithm>

namespace heapsnap {

namespace {

constexpr double kLargestRate = 9e18;  // what an int64_t holds

int64_t change_per_second(int64_t before, int64_t now, double seconds) {
  const double rate = (static_cast<double>(now) - static_cast<double>(before)) / seconds;
  return static_cast<int64_t>(std::clamp(rate, -kLargestRate, kLargestRate));
}

uint64_t rise_per_second(uint64_t before, uint64_t now, double seconds) {
  if (now <= before) return 0;
  return static_cast<uint64_t>(std::min(static_cast<double>(now - before) / seconds, kLargestRate));
}

}  // namespace

int64_t WatchLook::held_bytes() const {
  if (tracker) return tracker->growth();
  return static_cast<int64_t>(rss) + static_cast<int64_t>(swap);
}

std::optional<WatchRates> rates_between(const WatchLook& before, const WatchLook& now) {
  if (now.monotonic_ns <= before.monotonic_ns) return std::nullopt;
  WatchRates rates;
  rates.seconds = static_cast<double>(now.monotonic_ns - before.monotonic_ns) / 1e9;
  rates.rss = change_per_second(static_cast<int64_t>(before.rss), static_cast<int64_t>(now.rss),
                                rates.seconds);
  if (before.tracker && now.tracker) {
    const TrackerTotals& from = *before.tracker;
    const TrackerTotals& to = *now.tracker;
    rates.live = change_per_second(from.growth(), to.growth(), rates.seconds);
    rates.churn = rise_per_second(from.churn(), to.churn(), rates.seconds);
    rates.allocations = rise_per_second(from.allocations, to.allocations, rates.seconds);
  }
  return rates;
}

}  // namespace heapsnap
