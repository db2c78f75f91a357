// Whether a process is due for a snapshot.
//
//   rss_over      a condition for all others: no snapshot of a process that is smaller
//   every         a snapshot when the last one of the process is that old
//   grown_by      a snapshot when it has grown by that much since the last one
//   min_interval  no snapshot sooner than that after the last one
//
// Of a process without a snapshot the first is due at once. Without `every` and `grown_by` one is
// due each time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heapsnap {

struct DueRules {
  std::optional<uint64_t> rss_over;  // bytes
  std::optional<int64_t> every_s;
  std::optional<uint64_t> grown_by_bytes;  // at most one of the two
  std::optional<double> grown_by_percent;
  int64_t min_interval_s = 0;
};

// The newest snapshot of a process whose time is not in the future.
struct LastSnapshot {
  int64_t time_s = 0;
  uint64_t rss = 0;  // 0: unknown
};

struct DueState {
  int64_t now_s = 0;
  uint64_t rss = 0;                         // of the process, now
  std::optional<LastSnapshot> last;         // of the same process
  std::optional<int64_t> last_of_target_s;  // of any process that min_interval is to be kept to
};

struct DueVerdict {
  bool is_due = false;
  std::string why;  // "grown by 12.3 % since the last snapshot"
};

DueVerdict judge_due(const DueRules& rules, const DueState& state);

// "with RSS over 500.0 MiB, every 10 min or when grown by 10 % since the last snapshot".
std::string to_text(const DueRules& rules);

// "45 s", "10 min", "3 h", "14 days": the largest unit that gives at least one, rounded down.
std::string span_text(int64_t seconds);

}  // namespace heapsnap
