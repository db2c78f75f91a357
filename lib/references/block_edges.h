// References to the first bytes of blocks, kept in memory: which words of a block lead where.
//
// Takes twelve bytes for each block and eight for each reference, up to a limit.
#pragma once

#include <cstdint>
#include <span>

#include "base/large_memory.h"
#include "references/block_map.h"
#include "references/reference.h"

namespace heapsnap {

struct BlockEdge {
  uint32_t offset = 0;  // of the word in its block, in words of the target
  BlockNumber target = kNoBlock;
};

// Hands the references on to another sink and keeps what it needs.
class BlockEdges final : public ReferenceSink {
 public:
  // `next` outlives this. With more than `most_bytes` there are none (is_cut_off()).
  BlockEdges(ReferenceSink& next, uint64_t most_bytes) : next_(next), most_bytes_(most_bytes) {}

  void on_references(const ReferenceBatch& batch) override;
  // After the last one. `map` is the one whose blocks the references are of.
  void seal(const BlockMap& map);

  bool is_cut_off() const { return is_cut_off_; }
  BlockNumber blocks() const { return static_cast<BlockNumber>(sizes_.size()); }
  std::span<const BlockEdge> of(BlockNumber block) const {
    return edges_.span().subspan(begins_[block], begins_[block + 1] - begins_[block]);
  }
  // Usable bytes; UINT32_MAX: that many or more.
  uint32_t usable(BlockNumber block) const { return sizes_[block]; }

 private:
  void give_up();

  ReferenceSink& next_;
  uint64_t most_bytes_;
  bool is_cut_off_ = false;
  LargeArray<uint32_t> begins_;  // by block: its first edge; then the number of all
  LargeArray<BlockEdge> edges_;
  LargeArray<uint32_t> sizes_;
};

}  // namespace heapsnap
