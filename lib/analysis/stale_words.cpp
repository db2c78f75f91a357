#include "analysis/stale_words.h"

#include <algorithm>
#include <limits>
#include <map>

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

// Of how many blocks of each kind each word holds an address.
class StaleWords::Counting final : public ReferenceSink {
 public:
  explicit Counting(StaleWords& words) : words_(words) {}
  void on_references(const ReferenceBatch& batch) override {
    size_t next = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      const size_t end = next + batch.counts[i];
      words_.find_heads(batch, i, next, end);
      const Kind& kind = words_.kind_of(batch.first + i);
      for (; next < end; ++next) {
        if (batch.offsets[next] < kind.words) ++words_.holding_[kind.first + batch.offsets[next]];
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
      texts_(static_cast<BlockNumber>(sizes.size())),
      exact_(static_cast<BlockNumber>(sizes.size())),
      nodes_(static_cast<BlockNumber>(sizes.size())),
      heads_(static_cast<BlockNumber>(sizes.size())) {
  for (BlockSet& links : links_) links = BlockSet(static_cast<BlockNumber>(sizes.size()));
  read_types(references);
  assign_kinds(references);
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

void StaleWords::assign_kinds(const ReferenceStreams& references) {
  const auto blocks = static_cast<BlockNumber>(sizes_.size());
  kinds_.resize(1);  // kNotCompared
  kind_of_.assign(blocks, kNotCompared);
  std::map<std::pair<TypeNumber, size_t>, KindNumber> numbers;
  // Larger ones are arrays, whose words are alike.
  const auto assign = [&](BlockNumber block, TypeNumber type) {
    const size_t words = sizes_[block] / word_;
    if (words == 0 || words > kLargest / word_ || texts_.contains(block)) return;
    const auto [known, is_new] = numbers.try_emplace({type, words}, kNotCompared);
    if (is_new && kinds_.size() <= std::numeric_limits<KindNumber>::max()) {
      known->second = static_cast<KindNumber>(kinds_.size());
      kinds_.push_back({0, words, holding_.size()});
      holding_.resize(holding_.size() + words);
    }
    ++kinds_[known->second].blocks;
    kind_of_[block] = known->second;
  };
  BlockNumber next = 0;
  references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
    for (; next < first && next < blocks; ++next) assign(next, 0);
    for (size_t i = 0; i < types.size() && next < blocks; ++i) assign(next++, types[i]);
  });
  for (; next < blocks; ++next) assign(next, 0);
}

const StaleWords::Kind& StaleWords::kind_of(uint64_t block) const {
  return kinds_[block < kind_of_.size() ? kind_of_[block] : kNotCompared];
}

bool StaleWords::is_rare(const Kind& kind, uint32_t offset) const {
  constexpr uint64_t kFewBlocks = 16;
  constexpr uint64_t kOneIn = 8;
  if (offset >= kind.words || kind.blocks < kFewBlocks) return false;
  return holding_[kind.first + offset] * kOneIn < kind.blocks;
}

bool StaleWords::contains(uint64_t source, uint32_t offset, BlockNumber target) const {
  if (source >= texts_.blocks()) return false;
  const auto block = static_cast<BlockNumber>(source);
  if (texts_.contains(block)) return true;
  if (offset < kNodeWords && links_[offset].contains(block)) return false;
  if (heads_.contains(block) && target < nodes_.blocks() && nodes_.contains(target)) return false;
  return !exact_.contains(block) && is_rare(kind_of(source), offset);
}

}  // namespace heapsnap
