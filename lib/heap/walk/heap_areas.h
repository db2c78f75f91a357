// Where in the address space the chunks of each arena lie, before any chunk is looked at.
//
//   main arena     [heap], from mp_.sbrk_base up to the end of top; foreign sbrk calls leave
//                  holes in it that only the walk can see
//                  mappings that replaced brk (see mapped_segments.h)
//   thread arena   one area for each of its heaps (see thread_heaps.h)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heap/corruption_log.h"
#include "heap/heap_model.h"
#include "heap/located_malloc.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

struct HeapArea {
  AddressRange system;    // what the arena has from the kernel and counts in system_mem
  AddressRange reserved;  // address space that is the arena's alone: `system` and room to grow
  Address first_chunk;    // in `system`
  Address top;            // the arena's top when it lies in here, else null
  int32_t arena = 0;      // index into HeapModel::arenas
  SegmentKind kind = SegmentKind::kBrk;
};

class HeapAreas {
 public:
  HeapAreas() = default;
  // Sorts by address; of areas that overlap the later ones are dropped, with a record in `log`.
  HeapAreas(std::vector<HeapArea> areas, CorruptionLog& log);

  const std::vector<HeapArea>& all() const { return areas_; }
  // The area that holds `address`, or nullptr. Fast for addresses near the one asked for last.
  const HeapArea* find(Address address) const;
  uint64_t bytes() const;

 private:
  std::vector<HeapArea> areas_;
  mutable size_t last_ = 0;
};

// The areas of all `arenas`, whose instances are indexes into `mallocs`.
HeapAreas find_heap_areas(Target& target, PageCache& cache,
                          const std::vector<LocatedMalloc>& mallocs,
                          const std::vector<Arena>& arenas, CorruptionLog& log);

}  // namespace heapsnap
