// Runs of neighbouring free chunks: what malloc_trim(0) would make of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "analysis/heap_summary.h"
#include "analysis/page_states.h"
#include "snapshot/metadata.h"

namespace heapsnap {

// A run is what malloc_consolidate() would make one chunk: neighbours in fastbins and bins.
// See trim_estimate.h for what glibc then does with it.
class FreeRuns {
 public:
  // `count_blocks`: this is the first of the tables of page states that make up one summary.
  FreeRuns(const SnapshotMetadata& metadata, const PageStates& pages, HeapSummary& summary,
           bool count_blocks);

  // Runs of at most this size change nothing and need not be told.
  uint64_t ignorable_size(const ArenaSummary& arena) const {
    return std::min(arena.largest_free, page_size_);
  }

  // A run of the arena of that index, in `mapping` (nullptr: in none), that a used chunk, a fence
  // or a hole ends.
  void on_run(AddressRange run, size_t arena, const Mapping* mapping);
  // The top chunk of the main arena, with the run (may be empty) that would merge into it.
  void on_main_top(AddressRange run, AddressRange top, ArenaSummary& arena,
                   const HeapSegment& segment, const Mapping* mapping);

 private:
  // What malloc_trim(0) does to a run in a bin.
  void trim_run(AddressRange run, ArenaSummary& arena, const Mapping* mapping);
  // Adds what giving up `range` would bring.
  void give_up(AddressRange range, uint64_t TrimEstimate::*where, ArenaSummary& arena);

  uint64_t page_size_;
  uint64_t chunk_struct_;  // sizeof(struct malloc_chunk)
  uint64_t min_chunk_;     // MINSIZE
  bool count_blocks_;
  PageStates::Cursor pages_;
  const SnapshotMetadata& metadata_;
  HeapSummary& summary_;
};

}  // namespace heapsnap
