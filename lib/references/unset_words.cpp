#include "references/unset_words.h"

#include <algorithm>

namespace heapsnap {

UnsetWords::UnsetWords(const BlockMap& map, std::span<const AddressRange> words,
                       ReferenceSink& next)
    : next_(next) {
  BlockMap::Hint hint;
  for (const AddressRange& range : words) {
    const auto place = map.find(range.begin.value(), hint);
    if (!place || place->block >= map.first_slot()) continue;
    const uint64_t end = place->offset + range.size();
    words_.push_back({place->block, static_cast<uint32_t>(place->offset / map.word()),
                      static_cast<uint32_t>(std::min<uint64_t>(end / map.word(), UINT32_MAX))});
  }
  std::sort(words_.begin(), words_.end(),
            [](const Words& a, const Words& b) { return a.block < b.block; });
}

bool UnsetWords::contains(BlockNumber block, uint32_t offset) const {
  auto at =
      std::lower_bound(words_.begin(), words_.end(), block,
                       [](const Words& one, BlockNumber wanted) { return one.block < wanted; });
  for (; at != words_.end() && at->block == block; ++at) {
    if (at->begin <= offset && offset < at->end) return true;
  }
  return false;
}

void UnsetWords::on_references(const ReferenceBatch& batch) {
  const auto first =
      std::lower_bound(words_.begin(), words_.end(), batch.first,
                       [](const Words& one, BlockNumber wanted) { return one.block < wanted; });
  // Most batches have none of them.
  if (first == words_.end() || first->block - batch.first >= batch.counts.size()) {
    return next_.on_references(batch);
  }
  counts_.clear();
  offsets_.clear();
  targets_.clear();
  interior_.clear();
  size_t at = 0;
  for (size_t i = 0; i < batch.counts.size(); ++i) {
    const auto block = static_cast<BlockNumber>(batch.first + i);
    const size_t before = targets_.size();
    for (const size_t end = at + batch.counts[i]; at < end; ++at) {
      if (contains(block, batch.offsets[at])) continue;
      offsets_.push_back(batch.offsets[at]);
      targets_.push_back(batch.targets[at]);
      interior_.push_back(batch.interior[at]);
    }
    counts_.push_back(static_cast<uint32_t>(targets_.size() - before));
  }
  next_.on_references({batch.first, counts_, offsets_, targets_, interior_});
}

}  // namespace heapsnap
