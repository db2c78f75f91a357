// Free memory that large blocks left behind in arenas, as distinct from what small ones left.
//
// A block of M_MMAP_THRESHOLD and more has a mapping of its own, which goes back to the kernel with
// free(3). The threshold grows, though, whenever such a block is freed, and then blocks below it
// grow in arenas, where the memory of a freed one stays as long as chunks behind it are in use. A
// free run of that size is no sign of it: hundreds of small neighbours make one just as large, and
// no threshold changes anything about those. A sign is that blocks of exactly that size are in use
// in the arenas:
//
//   used 0x32010 | free 0x32010 | used 0x32010 | free 3 × 0x32010 | used 0x40 | free 0x41230 ...
//                  large block                   three of them                 small ones, or
//                  unknown
//
// A run counts when its size is a whole multiple of that of a used large chunk. Sizes are multiples
// of 16, so a run of other origin does so once in thousands.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analysis/page_bytes.h"
#include "analysis/size_classes.h"
#include "analysis/trim_estimate.h"

namespace heapsnap {

// M_MMAP_THRESHOLD before glibc lets it grow: blocks of this size start out in mappings of their
// own.
inline constexpr uint64_t kFirstMmapThreshold = 128 << 10;

// Free runs of one size in main arenas, or in those of threads; without the runs at their tops.
struct LargeRuns {
  uint64_t size = 0;
  bool in_main = false;
  uint64_t count = 0;
  PageBytes pages;
  TrimEstimate trim;  // what malloc_trim(0) would give back of them
  bool operator==(const LargeRuns&) const = default;
};

// Collects runs, and the sizes of large used chunks, in memory for a bounded number of sizes; what
// is beyond counts for nothing.
class LargeRunCensus {
 public:
  // A run of kFirstMmapThreshold and more. `counts`: it was not added before, with other pages.
  void add_run(uint64_t size, bool in_main, bool counts, const PageBytes& pages,
               const TrimEstimate& trim);
  // A used chunk of kFirstMmapThreshold and more in an arena.
  void add_used(uint64_t size);

  // The runs of sizes that used chunks have, by size.
  std::vector<LargeRuns> left_by_large_blocks() const;

 private:
  std::map<std::pair<uint64_t, bool>, LargeRuns> runs_;
  std::map<uint64_t, uint64_t> used_;  // size: how many
};

}  // namespace heapsnap
