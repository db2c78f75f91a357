// The graph of references of a snapshot, in memory: for each block, the blocks that it points to.
//
//   first    | 0 | 2 | 2 | 3 | ...       where the targets of a block begin
//   targets  | b c | | d | ...           four bytes each
//
// Ten bytes a block where it has one reference and a half. Offsets stay in the file.
//
// What is not a block but points to some (the place of a root, all roots together) can be appended
// as one, so that an algorithm needs no second kind.
#pragma once

#include <cstdint>
#include <span>

#include "base/large_memory.h"
#include "references/reference.h"

namespace heapsnap {

class ReferenceGraph {
 public:
  ReferenceGraph() = default;

  // Room for so much; to grow costs time.
  void reserve(BlockNumber blocks, uint64_t references);
  // Appends a block with the blocks that it points to, in the order of its words. They may be ones
  // that are appended later. Throws Error{kBadInput} past 2^32 blocks.
  void add(std::span<const BlockNumber> targets);
  // More that the last block points to.
  void extend(std::span<const BlockNumber> targets);
  // Once all blocks are there; nothing but add() works before. Throws Error{kBadInput} when a
  // target is none of them.
  void finish();
  // To append more after that.
  void reopen();
  void release();

  BlockNumber blocks() const { return blocks_; }
  uint64_t references() const { return targets_.size(); }
  uint64_t memory_bytes() const;
  std::span<const BlockNumber> targets(BlockNumber block) const {
    const uint64_t begin = first(block);
    return {targets_.data() + begin, first(block + 1) - begin};
  }
  // The same, to write other numbers over them.
  std::span<BlockNumber> targets(BlockNumber block) {
    const uint64_t begin = first(block);
    return {targets_.data() + begin, first(block + 1) - begin};
  }

  // Ask the processor for memory that will be read soon: first where the targets of a block are,
  // and later, when that is there, the targets.
  void prefetch(BlockNumber block) const { __builtin_prefetch(first_in_group_.data() + block); }
  void prefetch_targets(BlockNumber block) const {
    __builtin_prefetch(targets_.data() + first(block));
  }

 private:
  // Snapshots may have more than 2^32 references: the upper half is kept once for many blocks.
  static constexpr unsigned kGroupBits = 12;
  uint64_t first(BlockNumber block) const {
    return group_first_[block >> kGroupBits] + first_in_group_[block];
  }
  void add_first();

  BlockNumber blocks_ = 0;
  BlockNumber largest_target_ = 0;
  LargeArray<uint64_t> group_first_;
  LargeArray<uint32_t> first_in_group_;
  LargeArray<BlockNumber> targets_;

  friend ReferenceGraph reversed(const ReferenceGraph& graph);
};

// The graph with all references turned round: the targets of a block are those that point to it, in
// descending order.
ReferenceGraph reversed(const ReferenceGraph& graph);

// Gathers the graph of a snapshot as it is read; what is behind a block's first byte counts as the
// block. Throws Error{kBadInput} when the batches do not follow each other or contradict
// themselves.
class ReferenceGraphSink final : public ReferenceSink {
 public:
  explicit ReferenceGraphSink(ReferenceGraph& graph) : graph_(graph) {}
  void on_references(const ReferenceBatch& batch) override;

 private:
  ReferenceGraph& graph_;
};

}  // namespace heapsnap
