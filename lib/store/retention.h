// Which snapshots of a store are kept, and which may go.
//
// In each folder (a target's) a snapshot is kept if one of the counts keeps it:
//
//   last N     the newest N
//   hourly N   of each of the newest N hours that have any: the newest one of each process
//   daily N, weekly N   the same by days and by weeks that begin on Monday, UTC
//
// Without any count all are kept. Of what is kept, those older than max_age go, and then the oldest
// of all folders until the rest is not larger than max_bytes. The newest of a folder never goes.
//
// Snapshots from the future, of a clock that was ahead, are left out of all of this: they neither
// go nor take the place of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heapsnap {

struct RetentionRules {
  std::optional<uint64_t> last;
  std::optional<uint64_t> hourly;
  std::optional<uint64_t> daily;
  std::optional<uint64_t> weekly;
  std::optional<uint64_t> max_bytes;
  std::optional<int64_t> max_age_s;

  bool has_counts() const { return last || hourly || daily || weekly; }
  bool is_empty() const { return !has_counts() && !max_bytes && !max_age_s; }
};

struct RetainedFile {
  size_t folder = 0;   // files of a folder share the number
  int64_t time_s = 0;  // since 1970
  int pid = 0;
  uint64_t bytes = 0;
};

enum class Fate : uint8_t {
  kKept,
  kNotCounted,  // no count keeps it
  kTooOld,      // max_age
  kNoRoom,      // max_bytes
  kInFuture,    // no rule applies to it, and it stays
};
const char* to_string(Fate fate);  // "kept", "no count of keep holds it", "older than max_age", ...

// The fate of each of `files`, in their order.
std::vector<Fate> plan_retention(const RetentionRules& rules,
                                 const std::vector<RetainedFile>& files, int64_t now_s);

}  // namespace heapsnap
