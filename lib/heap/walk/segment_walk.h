// The walk over every chunk of a heap, front to back.
//
// An area is read once, in pieces (MemoryWindow), or passed over in place (HeapPasses). A chunk's
// size leads to the next chunk, and the next chunk's PREV_INUSE bit says whether it is free; the
// sorted addresses of the free lists, which are in the same order, say the rest:
//
//   chunk        size field of the next     on a list      state
//   | size | --► | ... P=1 |                no             used
//                | ... P=1 |                tcache, fast   kTcache, kFastbin
//                | ... P=0 |                unsorted       kUnsorted
//                | ... P=0, prev_size=size  no             kSmallbin or kLargebin, by size
//
// Damage is recorded and bridged by one chunk of state kUnknown that reaches to the next place
// where a chain of chunks begins, so that batches stay contiguous and a segment stays covered. The
// state of the chunk before the damage is kUnknown too unless a list gave it, since it depends on
// the damaged header. Holes between segments of a brk area (foreign sbrk calls) are covered by no
// chunk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heap/chunk.h"
#include "heap/chunk_format.h"
#include "heap/corruption_log.h"
#include "heap/heap_model.h"
#include "heap/in_place/heap_passes.h"
#include "heap/walk/chunk_batcher.h"
#include "heap/walk/chunk_chain.h"
#include "heap/walk/heap_areas.h"
#include "heap/walk/memory_window.h"
#include "heap/walk/sorted_addresses.h"
#include "target/target.h"

namespace heapsnap {

class SegmentWalk {
 public:
  // Everything must outlive the walk. `passes`: those over the memory of `target`, or nullptr.
  // `listed` is at its beginning. Segments are appended to `segments` as the walk meets them, bytes
  // whose state is not known to the arena's entry in `unknown_bytes` (as long as the list of
  // arenas).
  SegmentWalk(Target& target, HeapPasses* passes, PageCache& cache, SortedAddresses::Cursor listed,
              ChunkSink& sink, std::vector<HeapSegment>& segments,
              std::vector<uint64_t>& unknown_bytes, CorruptionLog& log);

  // From here on a batch is given to the sink before the window leaves its chunks, so that the sink
  // may look at them in window().
  // Only of a walk without passes, which read nothing through the window.
  void give_batches_in_window() { gives_in_window_ = true; }
  const MemoryWindow& window() const { return window_; }

  // Walks one area; areas come in ascending order of address. `is_main`: of a main arena.
  void walk(const HeapArea& area, const ChunkFormat& format, bool is_main);
  // Call it after the last area: what is left on the lists is in none of them.
  void finish();

 private:
  enum class Stop {
    kFull,     // the batch is; the chunk that comes next is sound
    kDecide,   // a sound chunk whose state takes a closer look, or another piece of memory
    kNoChunk,  // no chunk begins here: the limit, a fence, or damage
  };
  // The inner loop: fills the batch from the window as long as everything is ordinary.
  template <typename Word>
  Stop run();
  // The same over answers of a pass; false when there are none for the chunk at at().
  bool run_answers();
  bool ask_pass();
  // One run and what stopped it; false when the area is done.
  bool step();

  void decide_chunk();
  bool may_be_size(Address chunk, uint64_t field) const;
  ChunkState listed_state(bool in_use, ChunkState by_flags);
  bool at_limit();
  bool close_with(const Fence& fence);
  // Whether top may be all there is of the segment behind a foreign sbrk call, where no chunk was
  // found before it.
  bool may_begin_with_top();
  void damage(Address where, const std::string& what);
  void drop_listed_before(Address end, bool is_silent);

  Address at() const { return batcher_.at(); }
  void open_segment(Address begin);
  void close_segment();

  // Whether a chunk's header at `at` can be read in the window, which is moved there if need be.
  bool has_header(Address at);
  uint64_t window_word(Address at) const;
  Address read_limit() const;  // no byte from here on is needed
  ChainGoal goal() const;
  void log(Address where, const std::string& what);

  SortedAddresses::Cursor listed_;
  ChunkBatcher batcher_;  // its place is the next chunk's header
  std::vector<uint64_t>& unknown_bytes_;
  CorruptionLog& log_;
  MemoryWindow window_;
  bool gives_in_window_ = false;
  HeapPasses* passes_;                 // nullptr: all is read through the window
  Address next_pass_;                  // none is asked for before
  std::span<const uint32_t> answers_;  // of the last pass, for the chunks from at() on
  ChunkChain chain_;

  // Of the area that is walked.
  HeapArea area_;
  ChunkFormat format_;
  bool is_main_ = true;
  Address limit_;         // top, or the end of the area
  Address accounted_to_;  // end of the last segment, or the begin of the area
  Address last_listed_;   // chunk whose state a list gave last
  unsigned damages_ = 0;
};

}  // namespace heapsnap
