// The forward links of the free chunks of one arena, read front to back.
//
// Following a list through a live process costs a system call a link, some microseconds, in
// whatever order the program freed. Reading the whole arena costs less than that as soon as a list
// has links in a good part of its pages. So where the lists of an arena turn out to be long, it is
// walked once more, and the links are kept of what is free by its flags, and of what looks used but
// holds a link as a chunk in a fastbin does. The lists are then followed in here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heap/chunk.h"
#include "heap/chunk_format.h"
#include "heap/malloc_layout.h"
#include "heap/walk/heap_areas.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class SegmentWalk;

class FreeLinks final : private ChunkSink {
 public:
  // 36 MiB at most, half of it for what looks used; of chunks beyond it nothing is known.
  static constexpr size_t kMostLinks = 4 << 20;

  struct Link {
    Address forward;         // fd, revealed where links are protected
    uint64_t fast_size = 0;  // of what looks used, the chunk's size; 0: it is free by its flags
  };

  // Walks all areas of arena number `arena`. Damage is passed over. `with_fast`: also what looks
  // used and small enough for a fastbin.
  FreeLinks(Target& target, PageCache& cache, const MallocLayout& layout, const HeapAreas& areas,
            int32_t arena, bool is_main, bool with_fast);

  // What is known of the chunk at `chunk`. Fast for chunks not far behind the one asked for last:
  // programs free in no random order.
  std::optional<Link> find(Address chunk) const;

 private:
  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk&) override {}
  void keep_free(Address chunk);
  void keep_fast(Address chunk, uint64_t size);
  std::optional<uint64_t> read_forward(Address chunk);
  // False when the two lie too far from each other, or from the first area.
  bool keep(Address chunk, Address forward, uint64_t fast_size);

  const MallocLayout& layout_;
  ChunkFormat format_;
  PageCache& cache_;
  const SegmentWalk* walk_ = nullptr;  // that shows the chunks
  const HeapAreas& areas_;
  int32_t arena_;
  uint64_t largest_fast_ = 0;  // size of a chunk that may be in a fastbin
  size_t fast_count_ = 0;
  Address base_;  // of the first area
  // One entry for each chunk kept, ascending; places and distances in units of alignment.
  std::vector<uint32_t> places_;     // from base_
  std::vector<int32_t> forward_;     // from the chunk
  std::vector<uint8_t> fast_words_;  // fast_size in words; none without such chunks
  mutable size_t last_ = 0;          // found last
};

}  // namespace heapsnap
