// A part of the target's memory in a local buffer, for walks that pass through it once, upwards.
//
// Read-ahead adapts: it doubles while the walk uses what was read, and starts small again where the
// walk jumps over a large chunk, so that bodies of large chunks are not copied. Pages that are
// absent or swapped out are read only when the wanted address lies in them: a read must neither
// fill the target's page table with zero pages nor bring its swap back in.
//
//   target:  | resident | resident | absent | ... | resident |
//   at ──────────^      └─── window ──┘ stops here
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/address.h"
#include "target/target.h"

namespace heapsnap {

class MemoryWindow {
 public:
  static constexpr uint64_t kLargest = 1 << 20;  // about a second-level cache
  static constexpr uint64_t kSmallest = 8 << 10;

  // `target` outlives the window.
  explicit MemoryWindow(Target& target);

  // Puts the window at `at`: as many bytes as make sense, but none from `limit` on. Gives how many
  // there are; 0 when the byte at `at` cannot be read.
  size_t move_to(Address at, Address limit);

  Address begin() const { return begin_; }
  Address end() const { return begin_ + size_; }
  const std::byte* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  bool holds(Address at, uint64_t bytes) const {
    return AddressRange{begin_, end()}.contains(at, bytes);
  }

 private:
  // Bytes from `at` up to the first page after its own that is absent or swapped.
  uint64_t readable_ahead(Address at, uint64_t wanted);

  MemoryReader& memory_;
  PageResidency& residency_;
  uint64_t page_size_;
  std::unique_ptr<std::byte[]> bytes_;
  std::vector<PageState> states_;
  Address begin_;
  size_t size_ = 0;
  uint64_t ahead_ = kSmallest;
};

}  // namespace heapsnap
