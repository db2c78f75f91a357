// Walks every chunk of every arena of located mallocs.
//
// Two passes, both in bounded memory: first the free lists (tcaches, fastbins, unsorted bins) are
// followed and their addresses sorted; then each segment is read once, front to back, in large
// pieces, and joined with the sorted addresses. Every step is bounded by the segment; damage ends
// that segment with a Corruption and the walk resumes at the next place that makes sense.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "heap/chunk.h"
#include "heap/heap_model.h"
#include "heap/malloc_discovery.h"
#include "target/target.h"

namespace heapsnap {

struct WalkOptions {
  // Called now and then with the bytes walked and to be walked; may be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

// Emits every chunk to `sink` and gives what else there is to know. Sums of the walk are compared
// with the allocator's own books (system_mem, n_mmaps, mmapped_mem); a difference becomes a
// Corruption record. Throws only when the target is gone.
HeapModel walk_heaps(Target& target, const std::vector<LocatedMalloc>& mallocs, ChunkSink& sink,
                     const WalkOptions& options = {});

}  // namespace heapsnap
