// What can be done about the memory, each with what it is worth.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/heap_summary.h"
#include "analysis/rss_account.h"
#include "snapshot/metadata.h"

namespace heapsnap {

enum class AdviceKind : uint8_t {
  kTrim,           // bytes: what malloc_trim(0) gives back
  kArenaMax,       // bytes: free and resident in arenas other than the main one (tcaches aside)
  kMmapThreshold,  // bytes: resident in large free blocks that used chunks behind them pin
  kTcacheCount,    // bytes: resident in tcaches
  kHugePages,      // bytes: free and resident as parts of huge pages
  kFragmentation,  // bytes: free, but in pages that used chunks share; no setting gives them back
};
const char* to_string(AdviceKind kind);  // "trim", "arena-max", ...

struct Advice {
  AdviceKind kind = AdviceKind::kTrim;
  uint64_t bytes = 0;
  // What else the sentence names: arenas and threads (kArenaMax), large free blocks and large
  // used ones in arenas (kMmapThreshold), chunks and the limit per size (kTcacheCount); else 0.
  uint64_t count = 0;
  uint64_t other_count = 0;
  bool operator==(const Advice&) const = default;
};

// The advice that matters: worth at least 1 MiB and 2 % of the resident set, dearest first. The
// amounts overlap (a trim also returns what a fixed mmap threshold would never have kept).
std::vector<Advice> advise(const SnapshotMetadata& metadata, const HeapSummary& summary,
                           const RssAccount& account);

}  // namespace heapsnap
