#include "analysis/block_set.h"

#include <algorithm>

#include "base/count_bits.h"

namespace heapsnap {

BlockSet::BlockSet(BlockNumber blocks) : blocks_(blocks), words_((size_t{blocks} + 63) / 64 + 1) {}

BlockSet BlockSet::copy() const {
  BlockSet other(blocks_);
  std::copy(words_.begin(), words_.end(), other.words_.begin());
  return other;
}

void BlockSet::count() {
  missing_ = 0;
  missing_before_.clear();
  for (size_t begin = 0; begin <= blocks_; begin += kCounted) {
    missing_before_.push_back(missing_);
    for (size_t at = begin; at < std::min<size_t>(begin + kCounted, blocks_); at += 64) {
      const uint64_t below = blocks_ - at < 64 ? (uint64_t{1} << (blocks_ - at)) - 1 : UINT64_MAX;
      missing_ += count_bits(~words_[at / 64] & below);
    }
  }
}

}  // namespace heapsnap
