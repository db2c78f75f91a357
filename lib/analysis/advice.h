// What can be done about the memory: each item is a prediction, and says how much of it others
// share.
//
// All that can be given back is in free chunks, and several remedies apply to the same chunks:
//
//                        trim   arena-max   mmap-threshold   fragmentation   tcache-count
//   whole free pages      x         1             2
//   pages shared with               1             2                x
//     used chunks
//   top of a main arena   x
//   top of another                  x
//   in threads' caches                                                             x
//
// What is free in a language runtime's areas is apart from all of that (kPythonPools).
//
//   1: of arenas other than the main one   2: where large blocks left them (large_runs.h)
//
// So no amount may be added to another one. `overlap` says how much of an item those before it
// free already; what remains of all items adds up to no more than what is free. saved_together()
// counts each byte once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/heap_summary.h"
#include "analysis/rss_account.h"
#include "snapshot/metadata.h"

namespace heapsnap {

enum class AdviceKind : uint8_t {
  kTrim,           // bytes: what malloc_trim(0) gives back
  kArenaMax,       // bytes: free and resident in arenas other than the main one (tcaches aside)
  kMmapThreshold,  // bytes: resident in free runs that large blocks left
  kTcacheCount,    // bytes: resident in tcaches; no saving can be predicted
  kFragmentation,  // bytes: free, but in pages that used chunks share; no setting gives them back
  kPythonPools,    // bytes: free and resident in arenas of Python that have objects
};
const char* to_string(AdviceKind kind);  // "trim", "arena-max", ...

struct Advice {
  AdviceKind kind = AdviceKind::kTrim;
  uint64_t bytes = 0;  // what there is, measured
  // What the resident set would be smaller by if it were followed, least and most: equal where the
  // snapshot tells, a range where it depends on what no snapshot tells, both 0 where nothing can be
  // predicted. By RssBasis::kVirtual, where residency is unknown, the least is 0.
  uint64_t saves_least = 0;
  uint64_t saves_most = 0;
  // Of `saves_most` (of `bytes` where nothing is predicted): what items before this one in the list
  // free or speak of, too, at most; and which these are.
  uint64_t overlap = 0;
  std::vector<size_t> overlaps;
  // What else the sentence names: arenas and threads (kArenaMax), free runs and large used
  // chunks in arenas (kMmapThreshold), chunks and the limit per size (kTcacheCount);
  // else 0.
  uint64_t count = 0;
  uint64_t other_count = 0;

  bool is_predicted() const { return saves_most != 0; }
  bool is_certain() const { return is_predicted() && saves_least == saves_most; }
  // What this item is about and no item before it.
  uint64_t of_its_own() const { return (is_predicted() ? saves_most : bytes) - overlap; }
  bool operator==(const Advice&) const = default;
};

// How many arenas the advice kArenaMax speaks of, for a process that has `arenas` of them. With one
// arena each thread that allocates waits for every other, so that is advised for much memory only.
constexpr size_t arenas_advised(size_t arenas) {
  return arenas <= 2 ? 1 : 2;
}

// The advice that matters: worth at least 1 MiB and 2 % of the resident set. Of fragmentation 10 %;
// of a single arena the same, of what a trim does not give back.
// First what is certain to save something, then what may; the most first. Then what can only be
// said.
std::vector<Advice> advise(const SnapshotMetadata& metadata, const HeapSummary& summary,
                           const RssAccount& account);

// What all items of which a saving is predicted save together, where some of them overlap.
struct SavedTogether {
  std::vector<size_t> items;  // their places in the list; none where nothing overlaps
  uint64_t least = 0;
  uint64_t most = 0;
  bool operator==(const SavedTogether&) const = default;
};
SavedTogether saved_together(const std::vector<Advice>& advice, const SnapshotMetadata& metadata,
                             const HeapSummary& summary, const RssAccount& account);

}  // namespace heapsnap
