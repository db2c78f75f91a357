// The forward links of all free chunks of one arena, read front to back.
//
// Following a list through a live process costs a system call a link, some microseconds, in
// whatever order the program freed. Reading the whole arena costs less than that as soon as a list
// has links in a good part of its pages. So where the unsorted list turns out to be long, the arena
// is walked once more, the links of what is free (by its flags) are kept, and the list is followed
// here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heap/chunk.h"
#include "heap/chunk_format.h"
#include "heap/heap_areas.h"
#include "heap/memory_window.h"
#include "heap/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class FreeLinks final : private ChunkSink {
 public:
  static constexpr size_t kMostLinks = 2 << 20;  // 32 MiB; of chunks beyond it nothing is known

  // Walks all areas of arena number `arena`. Damage is passed over.
  FreeLinks(Target& target, PageCache& cache, const HeapAreas& areas, int32_t arena,
            const ChunkFormat& format, bool is_main);

  // fd of the free chunk at `chunk`, as it is stored; nothing when it is not known.
  std::optional<uint64_t> forward(Address chunk) const;

 private:
  struct Link {
    uint64_t chunk;
    uint64_t forward;
  };
  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk&) override {}

  ChunkFormat format_;
  MemoryWindow window_;
  Address area_end_;
  std::vector<Link> links_;  // ascending
};

}  // namespace heapsnap
