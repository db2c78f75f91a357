// A set of blocks: a bit for each block, and a count every 512 bits, so that each block that is not
// in the set has a number among those that are not.
//
//   bits   1 1 0 1 0 0 1 ...
//   rank       0   1 2          of the blocks that are not in the set
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/count_bits.h"
#include "base/large_memory.h"
#include "references/reference.h"

namespace heapsnap {

class BlockSet {
 public:
  BlockSet() = default;
  explicit BlockSet(BlockNumber blocks);

  // The same blocks, before count().
  BlockSet copy() const;

  BlockNumber blocks() const { return blocks_; }
  bool contains(BlockNumber block) const { return (words_[block / 64] >> (block % 64) & 1) != 0; }
  // The same of a number that may be no block's.
  bool has(uint64_t number) const {
    return number < blocks_ && contains(static_cast<BlockNumber>(number));
  }
  // Whether it was not in yet.
  bool insert(BlockNumber block) {
    uint64_t& word = words_[block / 64];
    const uint64_t before = word;
    word |= uint64_t{1} << (block % 64);
    return word != before;
  }

  // 64 blocks each, the first one's bit the lowest.
  std::span<const uint64_t> words() const { return words_.span(); }

  // After the last insertion; what follows needs it.
  void count();
  BlockNumber missing() const { return missing_; }
  // How many blocks before `block` are not in the set.
  BlockNumber rank_missing(BlockNumber block) const {
    BlockNumber rank = missing_before_[block / kCounted];
    for (size_t word = block / kCounted * kWordsCounted; word < block / 64; ++word) {
      rank += 64 - count_bits(words_[word]);
    }
    const uint64_t below = (uint64_t{1} << (block % 64)) - 1;
    return rank + count_bits(~words_[block / 64] & below);
  }
  // The blocks that are not in the set, ascending.
  template <typename Visit>
  void each_missing(Visit visit) const {
    for (size_t word = 0; word < words_.size(); ++word) {
      for (uint64_t left = ~words_[word]; left != 0; left &= left - 1) {
        const uint64_t block = word * 64 + static_cast<unsigned>(std::countr_zero(left));
        if (block >= blocks_) return;
        visit(static_cast<BlockNumber>(block));
      }
    }
  }

 private:
  static constexpr BlockNumber kCounted = 512;
  static constexpr size_t kWordsCounted = kCounted / 64;

  BlockNumber blocks_ = 0;
  BlockNumber missing_ = 0;
  LargeArray<uint64_t> words_;
  std::vector<BlockNumber> missing_before_;
};

}  // namespace heapsnap
