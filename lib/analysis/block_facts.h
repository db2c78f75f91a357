// Sizes, types and stacks of blocks by number, in few bytes each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analysis/block_set.h"
#include "analysis/reference_streams.h"
#include "analysis/snapshot_blocks.h"
#include "base/large_memory.h"

namespace heapsnap {

// Bytes. In blocks of more, places are not told apart: they are arrays.
constexpr uint64_t kLargestStructure = 512;

class BlockSizes {
 public:
  void add(uint64_t size) {
    const uint64_t units = size / kUnit;
    if (size % kUnit != 0 || units >= kOther) {
      others_.emplace(static_cast<BlockNumber>(units_.size()), size);
      units_.push_back(kOther);
    } else {
      units_.push_back(static_cast<uint32_t>(units));
    }
  }
  size_t size() const { return units_.size(); }
  uint64_t operator[](BlockNumber block) const {
    const uint32_t units = units_[block];
    return units == kOther ? others_.at(block) : uint64_t{units} * kUnit;
  }

 private:
  static constexpr uint64_t kUnit = 4;
  static constexpr uint32_t kOther = UINT32_MAX;  // larger than 16 GiB, or odd
  LargeArray<uint32_t> units_;
  std::unordered_map<BlockNumber, uint64_t> others_;
};

struct BlockColumns {
  BlockSizes sizes;
  LargeArray<uint32_t> stacks;           // empty: not asked for
  std::vector<BlockNumber> mallocs_own;  // ascending

  bool is_mallocs_own(BlockNumber block) const {
    return std::binary_search(mallocs_own.begin(), mallocs_own.end(), block);
  }
};

// Of `blocks` blocks, as many as there are references of. Throws Error{kBadInput} when the snapshot
// has more or fewer. Where they are not counted yet: of all blocks, for require_block_count().
BlockColumns read_block_columns(const SnapshotStreams& streams, std::optional<BlockNumber> blocks,
                                bool with_stacks = false);
// Throws that.
void require_block_count(BlockNumber of_references, uint64_t of_snapshot);
// How many blocks a snapshot has, slots of language runtimes included. Throws that where it has
// references of more or fewer.
BlockNumber count_blocks(const SnapshotStreams& streams);

// Those that point to any.
BlockSet blocks_with_references(const ReferenceGraph& graph);

// Of `blocks` blocks, those of a type of which `belongs` is true.
BlockSet blocks_of_types(const ReferenceStreams& references, BlockNumber blocks,
                         const std::function<bool(const BlockType&)>& belongs);

// 1 for each of those whose blocks are a container's memory for elements (holds_elements()).
std::vector<uint8_t> types_of_arrays(const std::vector<BlockType>& types);

// Calls visit(first, types) for consecutive blocks, from `first` on, in ascending order. Of types
// that differ in nothing but what is known of their words, each is the first one.
using VisitTypes = std::function<void(BlockNumber first, std::span<const TypeNumber> types)>;
void each_types(const ReferenceStreams& references, const VisitTypes& visit);

// The same of `blocks` blocks. Those past the end of what the snapshot says are of unknown
// type.
LargeArray<TypeNumber> read_types(const ReferenceStreams& references, BlockNumber blocks);

}  // namespace heapsnap
