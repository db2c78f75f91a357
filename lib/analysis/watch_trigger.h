// When a watched process calls for a snapshot.
//
//   rss_over   resident memory exceeds the limit. Again only after it has fallen to 95 % of the
//              limit, so that memory that wavers about the limit is one crossing
//   growth     held_bytes() (watch_look.h) grew by so much since the last snapshot or first look
//   churn      so much was allocated and freed since then; of a tracked process
//   every      so much time has passed since then
//
// One snapshot answers all rules that call for one at the same look.
#pragma once

#include <cstdint>
#include <optional>

#include "analysis/watch_look.h"

namespace heapsnap {

struct WatchRules {
  std::optional<uint64_t> rss_over;  // bytes, as the next two
  std::optional<uint64_t> growth;
  std::optional<uint64_t> churn;
  std::optional<uint64_t> every_ms;

  bool is_empty() const { return !rss_over && !growth && !churn && !every_ms; }
};

enum class WatchRule : uint8_t { kRssOver, kGrowth, kChurn, kEvery };

// A rule that calls for a snapshot, and by how much it was passed.
struct WatchCall {
  WatchRule rule = WatchRule::kEvery;
  uint64_t amount = 0;  // resident bytes, bytes grown, bytes churned; nanoseconds passed
  bool operator==(const WatchCall&) const = default;
};

class WatchTrigger {
 public:
  // Growth, churn and time count from `first` on.
  WatchTrigger(const WatchRules& rules, const WatchLook& first) : rules_(rules), mark_(first) {}

  // To be asked at each look, the first one included.
  std::optional<WatchCall> judge(const WatchLook& now);
  // A snapshot was taken at `now`. Until this is called, judge() calls for it again.
  void answer(const WatchLook& now);
  // Nothing from before can be compared with `now`: it is another program.
  void start_over(const WatchLook& now) { mark_ = now; }

  // Bytes held that came since the last snapshot or the first look.
  int64_t growth(const WatchLook& now) const;
  // Bytes churned since then.
  uint64_t churn(const WatchLook& now) const;

 private:
  WatchRules rules_;
  WatchLook mark_;
  bool is_over_ = false;  // a snapshot was taken of this crossing of rss_over
};

}  // namespace heapsnap
