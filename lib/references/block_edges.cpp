#include "references/block_edges.h"

#include <algorithm>

namespace heapsnap {

void BlockEdges::give_up() {
  is_cut_off_ = true;
  begins_.release();
  edges_.release();
  sizes_.release();
}

void BlockEdges::on_references(const ReferenceBatch& batch) {
  next_.on_references(batch);
  if (is_cut_off_) return;
  const uint64_t more =
      batch.targets.size() * sizeof(BlockEdge) + batch.counts.size() * 2 * sizeof(uint32_t);
  if (edges_.bytes() + 2 * begins_.bytes() + more > most_bytes_ ||
      edges_.size() + batch.targets.size() >= UINT32_MAX) {
    return give_up();
  }
  size_t at = 0;
  for (const uint32_t count : batch.counts) {
    begins_.push_back(static_cast<uint32_t>(edges_.size()));
    for (const size_t end = at + count; at < end; ++at) {
      if (batch.interior[at] == 0) edges_.push_back({batch.offsets[at], batch.targets[at]});
    }
  }
}

void BlockEdges::seal(const BlockMap& map) {
  if (is_cut_off_) return;
  if (begins_.size() != map.blocks()) return give_up();
  begins_.push_back(static_cast<uint32_t>(edges_.size()));
  sizes_ = LargeArray<uint32_t>(map.blocks());
  for (const AddressRange& memory : map.memory()) {
    map.each_part(memory, [this](const BlockMap::Part& whole) {
      sizes_[whole.block] =
          static_cast<uint32_t>(std::min<uint64_t>(whole.bytes.size(), UINT32_MAX));
    });
  }
  map.slots().each_slot(
      [&](uint32_t slot, Address, uint32_t bytes) { sizes_[map.first_slot() + slot] = bytes; });
}

}  // namespace heapsnap
