// Which stack allocated the block at an address: the tracker's shadow of the address space, read a
// window at a time.
//
// Blocks are asked for in ascending order, as a heap is walked. 32 bytes of heap have four bytes of
// slots, so the slots of neighbouring blocks are one short read. Pages of slots that were never
// touched are not read at all: reading would give the target page table entries that it did not
// have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "target/address_space.h"
#include "target/memory_reader.h"
#include "target/page_residency.h"
#include "tracker/table_layout.h"

namespace heapsnap {

class LiveSlots {
 public:
  // All must outlive this. `space` is that of the same instant as `memory`.
  LiveSlots(MemoryReader& memory, PageResidency& residency, const AddressSpace& space,
            const tracker::Directory& directory);

  // The slot (tracker::stack_id_of, slack_of) of each block: `blocks` are what malloc returned, in
  // ascending order. kEmptySlot where nothing was recorded or nothing can be read.
  void look_up(std::span<const Address> blocks, std::span<uint32_t> slots);

 private:
  // Where the slot of a block is; null when there is no leaf.
  Address slot_address(Address block);
  // Reads slots from the one of blocks.front() on, as many as lie close together.
  void read_window(std::span<const Address> blocks);
  // The bytes of [from, from + out.size()), zeros for pages that are not there.
  void read_present(Address from, std::span<std::byte> out);

  MemoryReader& memory_;
  PageResidency& residency_;
  const AddressSpace& space_;
  Address root_;
  uint64_t root_entries_;
  // The leaf used last.
  uint64_t leaf_index_ = ~0ULL;
  Address leaf_;
  bool leaf_is_private_ = false;  // what pagemap says of shared pages is not the whole truth
  // Slots of [window_begin_, window_begin_ + window_.size() * 4).
  Address window_begin_;
  std::vector<uint32_t> window_;
  std::vector<PageState> states_;
};

}  // namespace heapsnap
