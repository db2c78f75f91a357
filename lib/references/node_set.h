// Nodes of a container, few or many: few of them as numbers, many as bits of all blocks, which take
// less memory and are read in the order of addresses.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/large_memory.h"
#include "references/reference.h"

namespace heapsnap {

class NodeSet {
 public:
  // Of blocks with numbers below `blocks`.
  explicit NodeSet(BlockNumber blocks) : words_((uint64_t{blocks} + kBits - 1) / kBits) {}

  void add(BlockNumber block) {
    ++added_;
    if (!bits_.empty()) return set(block);
    numbers_.push_back(block);
    if (numbers_.size() >= std::max(kFew, words_)) use_bits();
  }
  // How often add() was called since it was empty.
  uint64_t added() const { return added_; }
  void clear() {
    numbers_.truncate(0);
    bits_.release();
    added_ = 0;
  }
  // Calls visit(block) for each; for one that was added twice, once or twice.
  template <typename Visit>
  void each(Visit visit) const {
    for (const BlockNumber block : numbers_) visit(block);
    for (size_t i = 0; i < bits_.size(); ++i) {
      for (uint64_t bits = bits_[i]; bits != 0; bits &= bits - 1) {
        visit(static_cast<BlockNumber>(i * kBits + static_cast<unsigned>(std::countr_zero(bits))));
      }
    }
  }

 private:
  static constexpr uint64_t kBits = 64;
  static constexpr uint64_t kFew = 1 << 16;

  void set(BlockNumber block) { bits_[block / kBits] |= uint64_t{1} << (block % kBits); }
  // Bits are cleared once for as many blocks as there are words of them, or more.
  void use_bits() {
    bits_ = LargeArray<uint64_t>(words_);
    for (const BlockNumber block : numbers_) set(block);
    numbers_.truncate(0);
  }

  uint64_t words_;
  uint64_t added_ = 0;
  LargeArray<BlockNumber> numbers_;
  LargeArray<uint64_t> bits_;  // empty: numbers_ has all
};

}  // namespace heapsnap
