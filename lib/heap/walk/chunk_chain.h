// Follows the chain of chunks that would begin at an address: a test that tells a chunk from bytes
// that happen to look like one.
//
// A chunk holds its size, so it leads to the next one. From a real chunk, the chain continues to
// the arena's top, to the fenceposts at the end of the segment, or to a chunk on a free list; from
// other bytes, it breaks after a step or two.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/address.h"
#include "heap/chunk_format.h"
#include "target/page_cache.h"
#include "target/page_residency.h"

namespace heapsnap {

// What a chain in one segment may lead to.
struct ChainGoal {
  Address limit;             // the arena's top, or the end of the segment: no chunk passes it
  Address known;             // a chunk according to a free list; null when there is none
  bool is_main = true;       // of the main arena: double fenceposts, no NON_MAIN_ARENA
  bool needs_fence = false;  // `limit` is no top but an end that a fence must guard
};

enum class ChainEnd {
  kBroken,  // an impossible size, or memory that cannot be read
  kFence,   // the fenceposts that close a segment
  kLimit,
  kKnown,
  kLong,  // convincing by its length alone
};

struct Chain {
  ChainEnd end = ChainEnd::kBroken;
  Address at;  // one past the last fencepost; or the limit, the known chunk, the broken one
  uint64_t chunks = 0;  // without fenceposts
};

// The fenceposts that begin at an address.
struct Fence {
  Address end;             // one past the last fencepost
  unsigned posts = 0;      // 0: there is no fence here
  uint64_t last_size = 0;  // of the last one; that of a thread heap takes what is left of the heap
};

class ChunkChain {
 public:
  static constexpr uint64_t kConvincing = 1024;  // chunks
  // Behind damage there may be more damage soon, so a shorter chain must do there.
  static constexpr uint64_t kConvincingBehindDamage = 16;
  // Steps that one ChunkChain makes in all, a page looked at in search of a chain being one too;
  // after that every chain is broken. It bounds the work that hostile memory can cause (about a
  // second).
  static constexpr uint64_t kBudget = 64 << 20;

  ChunkChain(PageCache& cache, PageResidency& residency, const ChunkFormat& format = {})
      : cache_(cache), residency_(residency), format_(format) {}

  // From here on chunks are of another malloc; the budget stays.
  void use_format(const ChunkFormat& format) { format_ = format; }

  // Whether it has no steps left, so that a search which found nothing says nothing.
  bool is_exhausted() const { return budget_ == 0; }

  // Follows the chain from `from` on; at most `most_chunks` of them, then it is kLong.
  Chain follow(Address from, const ChainGoal& goal, uint64_t most_chunks = kConvincing);
  // The first place from `from` up to `goal.known` (when there is one) or `goal.limit` where a
  // chain begins that does not break; `goal.known` itself when there is none before it; else
  // nothing. With `is_first`, the chunk there is the first of a segment: it says that the chunk
  // before it is in use.
  std::optional<Address> resync(Address from, const ChainGoal& goal, bool is_first);
  // The fenceposts at `at`. A main arena's segment is closed by two (or three) of the size of a
  // bare header; a thread heap by one of these and one of size 0, both in its last bytes before
  // `goal.limit` (sysmalloc()).
  Fence fence_at(Address at, const ChainGoal& goal);

 private:
  std::optional<uint64_t> size_field(Address chunk) {
    return cache_.word(chunk + format_.word, format_.word);
  }
  bool may_begin(Address at, const ChainGoal& goal, bool is_first);

  PageCache& cache_;
  PageResidency& residency_;
  ChunkFormat format_;
  uint64_t budget_ = kBudget;
};

}  // namespace heapsnap
