// Follows the lists of free chunks that a walk cannot tell from used ones, or from each other.
//
//   tcache     singly linked by what malloc returned; the chunk keeps looking used
//   fastbin    singly linked by chunk; the chunk keeps looking used (gone since 2.43)
//   unsorted   doubly linked by chunk; looks free, as chunks in small and large bins do, which need
//              no list: what is free and on no list is in the bin for its size
//
// Since 2.32 the links of tcache and fastbin lists are stored as (address of the link >> 12) ^ link
// ("safe linking", commit a1a486d70e); the heads are stored plain.
//
// Every link is checked (aligned, inside a heap, the right size for the list) and every list
// bounded: by the number of chunks that fit the heaps, and by Brent's algorithm against rings.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heap/chunk_format.h"
#include "heap/corruption_log.h"
#include "heap/heap_model.h"
#include "heap/in_place/heap_passes.h"
#include "heap/malloc_layout.h"
#include "heap/walk/free_links.h"
#include "heap/walk/heap_areas.h"
#include "heap/walk/sorted_addresses.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

class FreeLists {
 public:
  // All must outlive this. `passes`: those over the memory of `target`, or nullptr. What is found
  // goes to `listed`, damage to `log`.
  FreeLists(Target& target, HeapPasses* passes, PageCache& cache, const MallocLayout& layout,
            const HeapAreas& areas, SortedAddresses& listed, CorruptionLog& log);

  // The fastbins and the unsorted bin of `arena`, number `index`.
  void follow_bins(const Arena& arena, int32_t index);
  // All bins of one thread's cache; counts into `thread`. `per_bin`: mp_.tcache_count, 0 if
  // unknown.
  void follow_tcache(ThreadCache& thread, uint64_t per_bin);
  // mmapped chunks met in tcaches (2.43 and later), headers, in no order.
  const std::vector<Address>& mmapped() const { return mmapped_; }

 private:
  static constexpr size_t kMostMmapped = 1 << 20;
  class RingGuard;
  struct BinList;

  // The fastbins and, last, the unsorted list; the first chunk of each is next.
  std::vector<BinList> bin_lists(const Arena& arena, int32_t index);
  // Lists the next chunk, by reading it. False at the end, and at damage, which is then in the log.
  bool step(BinList& list);
  // What the chunk that is next links to, when it is what its list must hold.
  std::optional<Address> fastbin_link(const BinList& list);
  std::optional<Address> unsorted_link(const BinList& list);
  // All lists side by side by passes, each as far as they tell; what comes then takes a closer
  // look.
  void pass_over(std::vector<BinList>& lists);
  // False when the list does not go on by passes.
  bool take(BinList& list, const ListScan& scan, const ListedChunks& told);
  // What lies behind damage, from the other end.
  void follow_unsorted_back(const Arena& arena, const BinList& list);
  // Links of the arena, once the list is long and so many pages were read that gathering them pays.
  const FreeLinks* links_of(const BinList& list);
  std::optional<uint64_t> follow_tcache_bin(ThreadCache& thread, unsigned bin, Address head);

  std::optional<uint64_t> word(Address at) { return cache_.word(at, layout_.word); }
  // The size field of the chunk at `chunk` when that is aligned and in one of `arena`'s heaps (-1:
  // anybody's).
  std::optional<uint64_t> size_in_heap(Address chunk, int32_t arena);
  // What the link `stored` at `at` says.
  Address reveal(Address at, uint64_t stored) const;

  Target& target_;
  HeapPasses* passes_;
  PageCache& cache_;
  const MallocLayout& layout_;
  ChunkFormat format_;
  const HeapAreas& areas_;
  SortedAddresses& listed_;
  CorruptionLog& log_;
  uint64_t most_chunks_;             // that fit all heaps
  uint64_t most_in_tcaches_ = 0;     // that fit what of the heaps can be read
  uint64_t in_tcaches_ = 0;          // met so far
  std::vector<AddressRange> heaps_;  // of the arena whose bins are followed
  uint64_t enough_pages_ = 0;        // where links_of() gathers links
  std::unique_ptr<FreeLinks> links_;
  std::vector<Address> mmapped_;
};

}  // namespace heapsnap
