// The heaps of thread arenas: aligned mappings, linked from the newest to the first.
//
//   arena.top ──► in the newest heap
//      heap_info (at a multiple of HEAP_MAX_SIZE)      heap_info, malloc_state
//      | ar_ptr prev size | chunks ... top |     ◄──prev──  | ar_ptr 0 size | arena | chunks ... |
//
// HEAP_MAX_SIZE is 64 MiB (1 MiB on 32 bit), or 4 * mp_.hp_pagesize in glibc 2.35 to 2.41; which
// one holds is found by looking for a heap_info that names the arena (glibc malloc/arena.c).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "heap/located_malloc.h"
#include "target/address_space.h"
#include "target/page_cache.h"
#include "target/page_residency.h"
#include "target/target.h"

namespace heapsnap {

struct ThreadHeap {
  Address begin;          // of its heap_info
  Address previous;       // heap; null in the first
  uint64_t size = 0;      // heap_info.size: what counts into system_mem
  uint64_t reserved = 0;  // HEAP_MAX_SIZE
};

class ThreadHeaps {
 public:
  // All must outlive this. `malloc` gives the layout and mp_.
  ThreadHeaps(PageCache& cache, Target& target, const LocatedMalloc& malloc);

  // The heap of `arena` that holds `inside`; nothing when no heap_info there names the arena.
  std::optional<ThreadHeap> find(Address inside, Address arena) const;
  // Every heap of every thread arena, by the multiples of HEAP_MAX_SIZE in the address space: for
  // links that are damaged. Gives the arena each one names too.
  struct Named {
    ThreadHeap heap;
    Address arena;
  };
  // The heap that holds `inside`, whichever arena it names, if that arena lies in a heap of its
  // own.
  std::optional<Named> holding(Address inside) const;
  // In order of the arenas; searched for once.
  const std::vector<Named>& all() const;
  // Those that name `arena`.
  std::span<const Named> all_of(Address arena) const;
  // Where the first chunk of `heap` of `arena` lies.
  Address first_chunk(const ThreadHeap& heap, Address arena) const;

 private:
  std::vector<Named> scan() const;
  bool is_absent(Address place) const;
  std::optional<Named> read(Address begin, uint64_t reserved) const;

  PageCache& cache_;
  const AddressSpace& space_;
  PageResidency& residency_;
  const MallocLayout& layout_;
  std::vector<uint64_t> sizes_;  // candidates for HEAP_MAX_SIZE
  mutable std::optional<std::vector<Named>> all_;
};

}  // namespace heapsnap
