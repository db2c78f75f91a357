// Sizes, types and stacks of blocks by number, in few bytes each.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "analysis/reference_streams.h"
#include "analysis/snapshot_blocks.h"
#include "base/large_memory.h"

namespace heapsnap {

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

// Of `blocks` blocks. Those past the end of what the snapshot says are of unknown type.
inline LargeArray<TypeNumber> read_types(const ReferenceStreams& references, BlockNumber blocks) {
  LargeArray<TypeNumber> result(blocks);
  references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
    for (size_t i = 0; i < types.size() && first + i < blocks; ++i) result[first + i] = types[i];
  });
  return result;
}

}  // namespace heapsnap
