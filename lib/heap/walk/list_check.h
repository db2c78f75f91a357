// The free chunks of one arena, checked as malloc and free check them.
//
// A walk (heap_walker.h) needs little of what glibc relies on, and tells what is damaged as far as
// that changes its result. This is the other question: what will malloc, free, malloc_consolidate
// or malloc_trim come upon when they take a chunk from any list, put it back, or merge it with its
// neighbours?
//
//   chunk on a list        the chunk behind it     the one behind that
//   | prev | size | fd bk ... | prev | size | ... | prev | size |
//     │      │      └ each points back  │ └ leads to a header   └ PREV_INUSE: whether the one
//     │      └ right for the list       └ prev: the same size     before is merged, too
//     └ of the chunk before, if that is free
//
// glibc aborts or crashes where this does not hold (malloc_printerr and assert in malloc.c,
// unlink_chunk, sysmalloc, _int_malloc, _int_free, malloc_consolidate, mtrim; 2.17 to 2.44). Tests
// that only some versions make hold in all of them for sound heaps (do_check_free_chunk).
//
// Memory may change meanwhile. A sound list may then look damaged, but not a damaged one sound.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heap/chunk.h"
#include "heap/chunk_format.h"
#include "heap/heap_model.h"
#include "heap/malloc_layout.h"
#include "heap/walk/heap_areas.h"
#include "target/memory_reader.h"

namespace heapsnap {

// Of a 64-bit malloc.
class ListCheck {
 public:
  // All must outlive this. `arena` is number `index` of those that `areas` are of.
  ListCheck(MemoryReader& memory, const MallocLayout& layout, const HeapAreas& areas,
            const Arena& arena, int32_t index);

  // glibc's numbers: 1 is the unsorted list, 2 to 63 small bins, 64 to 126 large ones.
  static constexpr unsigned kFirstBin = 1;
  static constexpr unsigned kEndOfBins = kBins + 1;

  // The first damage that is met; nothing in a sound list.
  using Damage = std::optional<Corruption>;
  Damage check_top();
  Damage check_fastbin(unsigned number);
  Damage check_bin(unsigned number);

 private:
  struct Head {
    uint64_t previous_size, size, forward, back, next_size, previous_of_next_size;
  };
  struct Border {
    uint64_t previous_size, size;
  };
  class LargeOrder;

  // The head of the chunk at `chunk`; what is near it is read as well, for border_at().
  std::optional<Head> read_chunk(Address chunk, uint64_t least_size);
  std::optional<Border> border_at(Address chunk);
  Damage check_free_chunk(unsigned bin, Address chunk, const Head& head) const;
  Damage check_fast_chunk(Address chunk, const Head& head, uint64_t size);
  // The two chunks behind one on a list.
  Damage check_neighbours(Address chunk, uint64_t size, bool is_fast);
  // Of a chunk that is free by its flags, which free() would take out of its bin.
  Damage check_links(Address chunk);

  std::optional<uint64_t> word(Address at) { return memory_.read_value<uint64_t>(at); }
  Address bin_chunk(unsigned bin) const;
  bool is_in_arena(Address chunk, uint64_t size) const;
  Damage damage(Address where, std::string what) const;

  MemoryReader& memory_;
  const MallocLayout& layout_;
  ChunkFormat format_;
  const HeapAreas& areas_;
  const Arena& arena_;
  int32_t index_;
  uint64_t system_mem_ = 0;
  Address top_;
  uint64_t most_chunks_ = 0;  // that fit the arena
  Address near_begin_;        // of the memory in `near_`
  std::vector<std::byte> near_;
};

}  // namespace heapsnap
