// Finds tcaches among the chunks, without knowing the threads.
//
// A thread's tcache is found through its thread-local storage, which needs its registers. Where
// there are none (a target that was never stopped, a core without notes), every chunk in use that
// has the size of a tcache is tried: its lists must begin with chunks of exactly the sizes of their
// bins, in numbers that its counts allow. An empty tcache is not found, which makes no difference.
#pragma once

#include <optional>
#include <vector>

#include "heap/chunk.h"
#include "heap/chunk_format.h"
#include "heap/heap_model.h"
#include "heap/located_malloc.h"
#include "heap/walk/heap_areas.h"
#include "target/page_cache.h"

namespace heapsnap {

// A walk passes it every chunk; it keeps those that are tcaches.
class TcacheSearch final : public ChunkSink {
 public:
  // All must outlive this. Chunks of arenas of other instances than `instance` are passed over.
  TcacheSearch(PageCache& cache, const LocatedMalloc& malloc, const HeapAreas& areas,
               const std::vector<Arena>& arenas, uint32_t instance);

  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk&) override {}

  // Entries without a thread (tid 0), ascending; the arena is the one that the tcache lies in.
  const std::vector<ThreadCache>& found() const { return found_; }

 private:
  static constexpr size_t kMostFound = 1 << 16;

  bool is_filled_tcache(Address tcache) const;

  PageCache& cache_;
  const LocatedMalloc& malloc_;
  ChunkFormat format_;
  const HeapAreas& areas_;
  const std::vector<Arena>& arenas_;
  uint32_t instance_;
  uint64_t chunk_size_;
  std::vector<ThreadCache> found_;
};

}  // namespace heapsnap
