// Walks every chunk of every arena of located mallocs.
//
// Two passes, both in bounded memory: first the free lists (tcaches, fastbins, unsorted bins) are
// followed and their addresses sorted; then each segment is read once, front to back, in large
// pieces, and joined with the sorted addresses (see segment_walk.h). Chunks in mappings of their
// own come last (see mmapped_scan.h).
//
// Every step is bounded by the segment; damage becomes a Corruption and one chunk of state kUnknown
// that reaches to the next place that makes sense, where the walk resumes. What is absent or
// swapped out is not read, except where a header must be.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "heap/chunk.h"
#include "heap/heap_model.h"
#include "heap/located_malloc.h"
#include "target/target.h"

namespace heapsnap {

struct WalkOptions {
  // Called now and then with the bytes walked and to be walked; may be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

// Emits every chunk to `sink`: batches in ascending order of address, segment by segment, then
// mmapped chunks in ascending order for each malloc. Returns everything else that was found. Sums
// of the walk are compared with the allocator's own counters (system_mem, n_mmaps, mmapped_mem); a
// difference becomes a Corruption record. Throws only if the target is gone.
HeapModel walk_heaps(Target& target, const std::vector<LocatedMalloc>& mallocs, ChunkSink& sink,
                     const WalkOptions& options = {});

}  // namespace heapsnap
