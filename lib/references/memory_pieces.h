// The readable bytes of ranges of a target's memory, piece by piece, for scans that look at each
// word once.
//
// A piece is as the memory was: what was never touched reads as zero without being touched now, and
// what is in swap stays there (its words are not seen, only counted).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/large_memory.h"
#include "target/target.h"

namespace heapsnap {

class MemoryPieces {
 public:
  static constexpr uint64_t kMostBytes = 1 << 20;

  // `target` outlives this. No range that is read is larger than `most`. `kept`: how often
  // exchange() may be called with no buffer.
  explicit MemoryPieces(Target& target, uint64_t most = UINT64_MAX, size_t kept = 0);

  // Gives the bytes of `range` that are in memory, in ascending order, each span at most
  // kMostBytes. They live only during the call.
  void read(const AddressRange& range,
            const std::function<void(Address, std::span<const std::byte>)>& receive);

  // While a span is received that is none of memory that is mapped here: swaps the buffer that it
  // lies in for `bytes`, so that it stays valid. In place of an empty `bytes`, a new one is used.
  void exchange(std::span<std::byte>& bytes);

  // Of all ranges so far.
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t bytes_in_swap() const { return bytes_in_swap_; }
  // In no mapping, protected, or missing in a core.
  uint64_t bytes_unreadable() const { return bytes_unreadable_; }

 private:
  using Receive = std::function<void(Address, std::span<const std::byte>)>;
  void read_present(AddressRange range, const Receive& receive);
  Address leap(AddressRange range);

  Target& target_;
  PageResidency& residency_;
  uint64_t page_size_;
  LargeArray<std::byte, Pages::kSmall> all_bytes_;
  std::span<std::byte> unused_;  // of these
  std::span<std::byte> bytes_;   // that are read into
  std::vector<PageState> states_;
  uint64_t bytes_read_ = 0;
  uint64_t bytes_in_swap_ = 0;
  uint64_t bytes_unreadable_ = 0;
};

}  // namespace heapsnap
