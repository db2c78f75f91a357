#include "references/unset_words.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace heapsnap {

UnsetWords::UnsetWords(const BlockMap& map, std::span<const AddressRange> words,
                       ReferenceSink& next)
    : next_(next) {
  BlockMap::Hint hint;
  for (const AddressRange& range : words) {
    const auto place = map.find(range.begin.value(), hint);
    if (!place || place->block >= map.first_slot()) continue;
    const auto word_at = [&map](uint64_t offset) {
      return static_cast<uint32_t>(std::min<uint64_t>(offset / map.word(), UINT32_MAX));
    };
    words_.push_back({place->block, word_at(place->offset), word_at(place->offset + range.size())});
  }
  std::sort(words_.begin(), words_.end(), [](const Words& a, const Words& b) {
    return std::tie(a.block, a.begin) < std::tie(b.block, b.begin);
  });
  // A damaged list of files may name the same words again and again.
  std::vector<Words> apart;
  for (const Words& one : words_) {
    if (!apart.empty() && apart.back().block == one.block && one.begin <= apart.back().end) {
      apart.back().end = std::max(apart.back().end, one.end);
    } else {
      apart.push_back(one);
    }
  }
  words_ = std::move(apart);
}

std::vector<UnsetWords::Words>::const_iterator UnsetWords::first_behind(BlockNumber block,
                                                                        uint32_t offset) const {
  return std::partition_point(words_.begin(), words_.end(), [&](const Words& one) {
    return std::tie(one.block, one.end) <= std::tie(block, offset);
  });
}

bool UnsetWords::contains(BlockNumber block, uint32_t offset) const {
  const auto at = first_behind(block, offset);
  return at != words_.end() && at->block == block && at->begin <= offset;
}

void UnsetWords::on_references(const ReferenceBatch& batch) {
  const auto first = first_behind(batch.first, 0);
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
  next_.on_references({batch.first, counts_, offsets_, targets_, interior_, batch.goes_on});
}

}  // namespace heapsnap
