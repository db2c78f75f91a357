#include "analysis/stale_words.h"

#include <algorithm>

#include "references/container_storage.h"

namespace heapsnap {

namespace {

// Whether words of blocks of that type are no addresses: behind the end of a text lies what was
// there before.
bool is_text(const BlockType& type) {
  return type.source == TypeSource::kStructure && (type.name == to_string(StorageKind::kText) ||
                                                   type.name == to_string(StorageKind::kText16) ||
                                                   type.name == to_string(StorageKind::kText32));
}

bool is_exact(const BlockType& type) {
  return type.is_exact;
}

template <typename IsWanted>
BlockSet blocks_of(const ReferenceStreams& references, BlockNumber blocks, IsWanted is_wanted) {
  std::vector<bool> wanted;
  for (const BlockType& type : references.types) wanted.push_back(is_wanted(type));
  BlockSet found(blocks);
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return found;
  references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
    for (size_t i = 0; i < types.size() && first + i < blocks; ++i) {
      if (types[i] < wanted.size() && wanted[types[i]]) {
        found.insert(first + static_cast<BlockNumber>(i));
      }
    }
  });
  return found;
}

}  // namespace

// Of how many blocks of each size each word holds an address. Larger ones are arrays, whose words
// are alike.
class StaleWords::Counting final : public ReferenceSink {
 public:
  explicit Counting(StaleWords& words) : words_(words) {}
  void on_references(const ReferenceBatch& batch) override {
    const size_t count = words_.words_;
    size_t next = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      const size_t end = next + batch.counts[i];
      const size_t size = words_.size_of(batch.first + i);
      for (; next < end; ++next) {
        if (size < count && batch.offsets[next] < count) {
          ++words_.holding_[size * count + batch.offsets[next]];
        }
      }
    }
  }

 private:
  StaleWords& words_;
};

StaleWords::StaleWords(const ReferenceStreams& references, const BlockSizes& sizes, unsigned word)
    : sizes_(sizes),
      word_(word),
      words_(kLargest / word + 1),
      blocks_(words_),
      holding_(words_ * words_),
      texts_(blocks_of(references, static_cast<BlockNumber>(sizes.size()), is_text)),
      exact_(blocks_of(references, static_cast<BlockNumber>(sizes.size()), is_exact)) {
  for (size_t block = 0; block < sizes.size(); ++block) {
    const size_t size = size_of(block);
    if (size < words_) ++blocks_[size];
  }
  Counting counting(*this);
  references.read_references(counting);
}

size_t StaleWords::size_of(uint64_t block) const {
  if (block >= sizes_.size()) return words_;
  const uint64_t size = sizes_[static_cast<BlockNumber>(block)] / word_;
  return size < words_ ? size : words_;
}

bool StaleWords::is_rare(size_t size, uint32_t offset) const {
  constexpr uint64_t kFewBlocks = 16;
  constexpr uint64_t kOneIn = 8;
  if (size >= words_ || offset >= words_ || blocks_[size] < kFewBlocks) return false;
  return holding_[size * words_ + offset] * kOneIn < blocks_[size];
}

bool StaleWords::contains(uint64_t source, uint32_t offset) const {
  if (source >= texts_.blocks()) return is_rare(size_of(source), offset);
  const auto block = static_cast<BlockNumber>(source);
  if (texts_.contains(block)) return true;
  return !exact_.contains(block) && is_rare(size_of(source), offset);
}

}  // namespace heapsnap
