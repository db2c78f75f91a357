// Segments of a main arena that were mapped because brk could not grow.
//
// sysmalloc() then takes 1 MiB or more from mmap, makes it top, and never notes where it was:
// nothing links to such a segment once top has moved on. But each is a chain of chunks that begins
// a page and ends, page aligned, in a double fence or in the arena's top:
//
//   page ──► | chunk | chunk | ... | fence fence |      | chunk | ... | top         |
//
// So every page of anonymous memory is tried. Which chains count is limited by the arena's
// system_mem, which counts these segments.
#pragma once

#include <vector>

#include "heap/chunk_format.h"
#include "heap/walk/heap_areas.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

// The mapped segments of `arena`, a non-contiguous main arena that is number `index`. `known`: all
// other areas of all heaps. `in_brk`: bytes of its system_mem that are, at most, in its brk area.
std::vector<HeapArea> find_mapped_segments(Target& target, PageCache& cache,
                                           const ChunkFormat& format, const Arena& arena,
                                           int32_t index, const std::vector<HeapArea>& known,
                                           uint64_t in_brk);

}  // namespace heapsnap
