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
      words_.find_heads(batch, i, next, end);
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

bool StaleWords::is_of_container(BlockNumber block) const {
  return exact_.contains(block) ||
         std::any_of(links_.begin(), links_.end(),
                     [&](const BlockSet& of_word) { return of_word.contains(block); });
}

void StaleWords::find_heads(const ReferenceBatch& batch, size_t i, size_t begin, size_t end) {
  const auto node = static_cast<BlockNumber>(batch.first + i);
  if (node >= nodes_.blocks() || !nodes_.contains(node)) return;
  const bool are_all = exact_.contains(node);
  for (size_t at = begin; at < end; ++at) {
    const uint32_t offset = batch.offsets[at];
    const BlockNumber target = batch.targets[at];
    const bool is_link = are_all || (offset < kNodeWords && links_[offset].contains(node));
    if (is_link && target < nodes_.blocks() && !is_of_container(target)) heads_.insert(target);
  }
}

StaleWords::StaleWords(const ReferenceStreams& references, const BlockSizes& sizes, unsigned word)
    : sizes_(sizes),
      word_(word),
      words_(kLargest / word + 1),
      blocks_(words_),
      holding_(words_ * words_),
      texts_(static_cast<BlockNumber>(sizes.size())),
      exact_(static_cast<BlockNumber>(sizes.size())),
      nodes_(static_cast<BlockNumber>(sizes.size())),
      heads_(static_cast<BlockNumber>(sizes.size())) {
  for (BlockSet& links : links_) links = BlockSet(static_cast<BlockNumber>(sizes.size()));
  read_types(references);
  for (size_t block = 0; block < sizes.size(); ++block) {
    const size_t size = size_of(block);
    if (size < words_) ++blocks_[size];
  }
  Counting counting(*this);
  references.read_references(counting);
}

void StaleWords::read_types(const ReferenceStreams& references) {
  struct Words {
    bool are_text;
    bool are_exact;
    NodeLinks links;
    bool is_plain() const { return !are_text && !are_exact && links.words == 0 && !links.are_all; }
  };
  std::vector<Words> words;
  for (const BlockType& type : references.types) {
    const NodeLinks links = node_links(type);
    words.push_back({is_text(type), type.is_exact || links.are_all, links});
  }
  if (std::all_of(words.begin(), words.end(), [](const Words& each) { return each.is_plain(); })) {
    return;
  }
  references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
    for (size_t i = 0; i < types.size() && first + i < texts_.blocks(); ++i) {
      if (types[i] >= words.size() || words[types[i]].is_plain()) continue;
      const Words& known = words[types[i]];
      const BlockNumber block = first + static_cast<BlockNumber>(i);
      if (known.are_text) texts_.insert(block);
      if (known.are_exact) exact_.insert(block);
      for (size_t word = 0; word < kNodeWords; ++word) {
        if ((known.links.words >> word & 1) != 0) links_[word].insert(block);
      }
      if (known.links.lead_to_head) nodes_.insert(block);
    }
  });
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

bool StaleWords::contains(uint64_t source, uint32_t offset, BlockNumber target) const {
  if (source >= texts_.blocks()) return is_rare(size_of(source), offset);
  const auto block = static_cast<BlockNumber>(source);
  if (texts_.contains(block)) return true;
  if (offset < kNodeWords && links_[offset].contains(block)) return false;
  if (heads_.contains(block) && target < nodes_.blocks() && nodes_.contains(target)) return false;
  return !exact_.contains(block) && is_rare(size_of(source), offset);
}

}  // namespace heapsnap
