// The graph of references in as few bits as its numbers need: a third of the memory of a
// ReferenceGraph, for who asks no more than what roots reach.
//
//   targets   | 25 bits | 25 bits | ...       of 20 million blocks; those of a block in a row
//   counts    1 1 0 0 1 0 ...                 a 1 a reference, then a 0: block 0 has two, 1 none
//   first     where the references of each 64th block begin
//
// Two blocks with two references each, among 20 million: 13 bytes. What a graph takes never
// depends on where its references lead.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "analysis/block_set.h"
#include "analysis/reference_streams.h"
#include "base/large_memory.h"
#include "references/reference.h"

namespace heapsnap {

class PackedReferences final : public ReferenceSink {
 public:
  // Of so many blocks, whose references are added in their order.
  explicit PackedReferences(BlockNumber blocks);

  // Throws Error{kBadInput} when blocks are missing, or a target is none of them.
  void on_references(const ReferenceBatch& batch) override;
  // Once all are there. Throws Error{kBadInput} when they are fewer blocks than were said.
  void finish();

  BlockNumber blocks() const { return blocks_; }
  uint64_t memory_bytes() const { return targets_.bytes() + counts_.bytes() + first_.bytes(); }

  // Calls visit(target) for each block that `block` points to.
  template <typename Visit>
  void each_target(BlockNumber block, Visit visit) const {
    uint64_t bit = begin_of_counts(block);
    for (uint64_t reference = bit - block; is_one(bit); ++bit, ++reference) {
      visit(target(reference));
    }
  }
  // Asks the processor for where the references of a block are.
  void prefetch(BlockNumber block) const { __builtin_prefetch(&first_[block / kGroup]); }

 private:
  static constexpr unsigned kGroup = 64;
  static constexpr unsigned kWord = 64;

  bool is_one(uint64_t bit) const { return (counts_[bit / kWord] >> (bit % kWord) & 1) != 0; }
  uint64_t begin_of_counts(BlockNumber block) const;
  BlockNumber target(uint64_t reference) const {
    const uint64_t bit = reference * width_;
    const unsigned shift = bit % kWord;
    uint64_t bits = targets_[bit / kWord] >> shift;
    if (shift + width_ > kWord) bits |= targets_[bit / kWord + 1] << (kWord - shift);
    return static_cast<BlockNumber>(bits & mask_);
  }
  void add_block(bool goes_on);
  void add_target(BlockNumber target);

  BlockNumber blocks_;
  unsigned width_;  // bits of a target
  uint64_t mask_;
  uint64_t next_ = 0;  // block
  uint64_t references_ = 0;
  LargeArray<uint64_t> targets_;
  LargeArray<uint64_t> counts_;
  LargeArray<uint64_t> first_;  // of each group of blocks, its first reference
};

// The blocks of a snapshot that paths lead to from `starts`, whatever order these are in. Throws
// Error{kBadInput} when one of them is not there, or references and blocks do not fit together.
BlockSet reachable_in_few_bytes(const ReferenceStreams& references, BlockNumber blocks,
                                std::span<const BlockNumber> starts);

}  // namespace heapsnap
