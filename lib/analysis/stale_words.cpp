#include "analysis/stale_words.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "references/file_memory.h"
#include "references/storage_kind.h"

namespace heapsnap {

namespace {

// Fewer tell nothing.
constexpr uint64_t kFewBlocks = 16;

// Behind capacities malloc gives a page at most; maps of deques may be larger. All more are left
// over.
constexpr size_t kMostCountedWords = 1 << 20;

// A rest that is too small for a chunk stays with the one before it (where words are of 8 bytes:
// else malloc leaves none).
constexpr size_t kRestWords = 2;

constexpr StorageKind kTexts[] = {StorageKind::kText, StorageKind::kText16, StorageKind::kText32,
                                  StorageKind::kStreamBuffer};
// As debug information names arrays whose elements are no addresses.
constexpr std::string_view kNumbers[] = {
    "bool[]",           "char[]",      "signed char[]",        "unsigned char[]", "std::byte[]",
    "char8_t[]",        "char16_t[]",  "char32_t[]",           "wchar_t[]",       "short[]",
    "unsigned short[]", "short int[]", "short unsigned int[]", "int[]",           "unsigned int[]",
    "float[]",          "double[]"};

// Whether the program or its runtime says the type; else how blocks look tells it, so that some of
// those without one may be the same.
bool is_told(const BlockType& type) {
  return type.source != TypeSource::kUnknown && type.source != TypeSource::kStructure;
}

}  // namespace

bool has_no_addresses(const BlockType& type) {
  const bool is_by_debug_info = type.source == TypeSource::kDebugInfo;
  if (type.source != TypeSource::kStructure && !is_by_debug_info) return false;
  if (is_by_debug_info && std::ranges::count(kNumbers, type.name) != 0) return true;
  return type.name == kFileBuffer || std::ranges::any_of(kTexts, [&](StorageKind text) {
           return type.name == to_string(text);
         });
}

// Of how many blocks of each kind each word holds an address.
class StaleWords::Counting final : public ReferenceSink {
 public:
  explicit Counting(StaleWords& words) : words_(words) {}
  void on_references(const ReferenceBatch& batch) override {
    size_t next = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      const size_t end = next + batch.counts[i];
      words_.find_heads(batch, i, next, end);
      words_.find_larger_nodes(batch, i, next, end);
      words_.count_in_slack(batch, i, next, end);
      const Kind& kind = words_.kind_of(batch.first + i);
      for (; next < end; ++next) {
        const uint32_t offset = batch.offsets[next];
        if (offset >= kind.words) continue;
        ++words_.holding_[kind.first + offset];
        if (kind.of_size != kNotCompared) {
          ++words_.holding_[words_.kinds_[kind.of_size].first + offset];
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
  if (!nodes_.has(node)) return;
  const bool are_all = exact_.contains(node);
  for (size_t at = begin; at < end; ++at) {
    const uint32_t offset = batch.offsets[at];
    const BlockNumber target = batch.targets[at];
    const bool is_link = are_all || (offset < kNodeWords && links_[offset].contains(node));
    if (is_link && target < nodes_.blocks() && !is_of_container(target)) heads_.insert(target);
  }
}

void StaleWords::find_larger_nodes(const ReferenceBatch& batch, size_t i, size_t begin,
                                   size_t end) {
  const auto node = static_cast<BlockNumber>(batch.first + i);
  if (!has_smaller_kinds_ || node >= sizes_.size()) return;
  for (size_t at = begin; at < end; ++at) {
    const uint32_t offset = batch.offsets[at];
    if (offset < kNodeWords && links_[offset].contains(node)) {
      compare_sizes(node, batch.targets[at]);
    }
  }
}

// Null if it is none that those with slack words are compared with.
StaleWords::OfSize* StaleWords::compared_with_slack(uint64_t block) {
  if (slack_sizes_.empty() || block >= sizes_.size()) return nullptr;
  const auto number = static_cast<BlockNumber>(block);
  if (typed_.contains(number) || with_slack_.contains(number)) return nullptr;
  const auto of_size = slack_sizes_.find(sizes_[number]);
  return of_size == slack_sizes_.end() ? nullptr : &of_size->second;
}

void StaleWords::count_in_slack(const ReferenceBatch& batch, size_t i, size_t begin, size_t end) {
  OfSize* const others = compared_with_slack(batch.first + i);
  if (others == nullptr) return;
  for (size_t at = begin; at < end; ++at) {
    const uint32_t offset = batch.offsets[at];
    if (offset < others->first || offset - others->first >= others->holding.size()) continue;
    ++others->holding[offset - others->first];
  }
}

void StaleWords::compare_sizes(BlockNumber node, BlockNumber next) {
  if (next >= sizes_.size()) return;
  const auto is_larger = [&](BlockNumber block, BlockNumber other) {
    const KindNumber smaller = kind_of(block).smaller;
    return smaller != kNotCompared && smaller == kind_of_[other];
  };
  if (is_larger(node, next)) larger_nodes_.insert(node);
  if (is_larger(next, node)) larger_nodes_.insert(next);
}

StaleWords::StaleWords(const ReferenceStreams& references, const BlockSizes& sizes, unsigned word)
    : sizes_(sizes),
      word_(word),
      texts_(static_cast<BlockNumber>(sizes.size())),
      arrays_(static_cast<BlockNumber>(sizes.size())),
      with_slack_(static_cast<BlockNumber>(sizes.size())),
      slack_words_(references.slack_words),
      with_unused_(static_cast<BlockNumber>(references.unused_words.empty() ? 0 : sizes.size())),
      unused_words_(references.unused_words),
      typed_(static_cast<BlockNumber>(references.slack_words.empty() ? 0 : sizes.size())),
      exact_(static_cast<BlockNumber>(sizes.size())),
      nodes_(static_cast<BlockNumber>(sizes.size())),
      heads_(static_cast<BlockNumber>(sizes.size())) {
  for (BlockSet& links : links_) links = BlockSet(static_cast<BlockNumber>(sizes.size()));
  // Those of a size have its words as number; larger ones are arrays, whose words are alike.
  kinds_.resize(kLargestStructure / word + 1);
  for (size_t words = 1; words < kinds_.size(); ++words) {
    kinds_[words] = {0, words, holding_.size(), kNotCompared, kNotCompared, 0};
    holding_.resize(holding_.size() + words);
  }
  kind_of_.assign(sizes.size(), kNotCompared);
  for (const SlackWords& words : slack_words_) {
    if (words.block >= sizes.size()) continue;
    with_slack_.insert(words.block);
    uint32_t& first = slack_sizes_[sizes[words.block]].first;
    first = std::min(first, words.first - std::min(words.first, words.spare));
  }
  with_slack_.count();
  for (const UnusedWord& one : unused_words_) {
    if (one.block < with_unused_.blocks()) with_unused_.insert(one.block);
  }
  read_types(references);
  count_slack_blocks();
  Counting counting(*this);
  references.read_references(counting);
}

void StaleWords::read_types(const ReferenceStreams& references) {
  struct Words {
    bool are_text = false;
    bool are_exact = false;
    bool are_told = false;  // the type is
    bool is_array = false;
    NodeLinks links;
  };
  const BlockType unknown;
  std::vector<Words> words;
  for (const BlockType& type : references.types) {
    const NodeLinks links = node_links(type);
    const bool is_array =
        type.source == TypeSource::kStructure && type.name == to_string(StorageKind::kArray);
    words.push_back(
        {has_no_addresses(type), type.is_exact || links.are_all, is_told(type), is_array, links});
  }
  const auto blocks = static_cast<BlockNumber>(sizes_.size());
  const auto read = [&](BlockNumber block, TypeNumber type) {
    const Words known = type < words.size() ? words[type] : Words{};
    if (known.are_exact) exact_.insert(block);
    if (known.is_array) arrays_.insert(block);
    if (type != 0 && block < typed_.blocks()) typed_.insert(block);
    for (size_t word = 0; word < kNodeWords; ++word) {
      if ((known.links.words >> word & 1) != 0) links_[word].insert(block);
    }
    if (known.links.lead_to_head) nodes_.insert(block);
    if (known.are_text) {
      texts_.insert(block);
    } else {
      assign_kind(block, type, type < words.size() ? references.types[type] : unknown,
                  known.are_told);
    }
  };
  BlockNumber next = 0;
  references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
    for (; next < first && next < blocks; ++next) read(next, 0);
    for (size_t i = 0; i < types.size() && next < blocks; ++i) read(next++, types[i]);
  });
  for (; next < blocks; ++next) read(next, 0);
  find_smaller_kinds(references.types);
}

void StaleWords::count_slack_blocks() {
  if (slack_sizes_.empty()) return;
  for (BlockNumber block = 0; block < sizes_.size(); ++block) {
    if (OfSize* const others = compared_with_slack(block)) ++others->blocks;
  }
  size_t counted = 0;
  for (auto& [size, of_size] : slack_sizes_) {
    if (of_size.blocks < kFewBlocks) continue;
    const uint64_t words = std::max<uint64_t>(size / word_, of_size.first) - of_size.first;
    of_size.holding.resize(std::min<uint64_t>(words, kMostCountedWords - counted));
    counted += of_size.holding.size();
  }
}

// An array of 16 bytes more has more elements.
void StaleWords::find_smaller_kinds(const std::vector<BlockType>& types) {
  if (word_ != 8) return;
  for (const auto& [key, number] : typed_kinds_) {
    const auto [type, words] = key;
    if (words <= kRestWords || number == words || type >= types.size()) continue;
    if (node_links(types[type]).words == 0) continue;
    const auto smaller = typed_kinds_.find({type, words - kRestWords});
    if (smaller == typed_kinds_.end() || kinds_[number].blocks >= kFewBlocks) continue;
    if (kinds_[smaller->second].blocks < kFewBlocks) continue;
    kinds_[number].smaller = smaller->second;
    has_smaller_kinds_ = true;
  }
}

// Of a block of so many usable bytes. A larger one than malloc gives for the object has more in it.
size_t StaleWords::object_words(uint64_t object, uint64_t usable) const {
  constexpr uint64_t kMostMore = 32;
  const bool fits = object != 0 && object <= usable && usable - object < kMostMore;
  return fits ? (object + word_ - 1) / word_ : SIZE_MAX;
}

void StaleWords::assign_kind(BlockNumber block, TypeNumber number, const BlockType& type,
                             bool is_told) {
  const size_t words = sizes_[block] / word_;
  if (words == 0 || words > kLargestStructure / word_) return;
  const auto of_size = static_cast<KindNumber>(words);
  if (!is_told) ++kinds_[of_size].blocks;
  kind_of_[block] = of_size;
  if (number == 0) return;
  const auto [kind, is_new] = typed_kinds_.try_emplace({number, words}, of_size);
  if (is_new && kinds_.size() <= std::numeric_limits<KindNumber>::max()) {
    kind->second = static_cast<KindNumber>(kinds_.size());
    kinds_.push_back({0, words, holding_.size(), is_told ? kNotCompared : of_size, kNotCompared,
                      type.pointers, object_words(type.bytes, sizes_[block])});
    holding_.resize(holding_.size() + words);
  }
  kind_of_[block] = kind->second;
  if (kind->second != of_size) ++kinds_[kind->second].blocks;
}

bool is_rarely_held(uint64_t holding, uint64_t blocks) {
  constexpr uint64_t kOneIn = 8;
  return blocks >= kFewBlocks && holding * kOneIn < blocks;
}

const StaleWords::Kind& StaleWords::kind_of(uint64_t block) const {
  return kinds_[block < kind_of_.size() ? kind_of_[block] : kNotCompared];
}

bool StaleWords::is_declared(BlockNumber block, uint32_t offset) const {
  constexpr uint32_t kDeclared = 64;  // words that BlockType::pointers tells of
  return offset < kDeclared && (kind_of(block).pointers >> offset & 1) != 0;
}

bool StaleWords::is_rare(BlockNumber block, uint32_t offset) const {
  const Kind& kind = kind_of(block);
  if (offset >= kind.words) return false;
  if (larger_nodes_.contains(block)) {
    const Kind& smaller = kinds_[kind.smaller];
    return offset >= smaller.words ||
           is_rarely_held(holding_[smaller.first + offset], smaller.blocks);
  }
  return is_rarely_held(holding_[kind.first + offset], kind.blocks);
}

bool StaleWords::may_be_link_of_larger(BlockNumber block, uint32_t offset,
                                       BlockNumber target) const {
  const size_t words = sizes_[block] / word_;
  if (word_ != 8 || target >= sizes_.size() || words <= kRestWords || kind_of_[block] != words) {
    return false;
  }
  if (kind_of_[target] != words && kind_of_[target] != words - kRestWords) return false;
  const Kind& smaller = kinds_[words - kRestWords];
  return offset < smaller.words && smaller.blocks >= kFewBlocks &&
         !is_rarely_held(holding_[smaller.first + offset], smaller.blocks);
}

// Where one in four of them holds one, there may be more in such blocks than the type tells.
bool StaleWords::is_behind_object(BlockNumber block, uint32_t offset) const {
  constexpr uint64_t kOneIn = 4;
  const Kind& kind = kind_of(block);
  return offset >= kind.object_words && offset < kind.words && kind.blocks >= kFewBlocks &&
         holding_[kind.first + offset] * kOneIn < kind.blocks;
}

bool StaleWords::is_slack(BlockNumber block, uint32_t offset) const {
  if (!with_slack_.contains(block)) return false;
  const SlackWords& words = slack_words_[block - with_slack_.rank_missing(block)];
  if (offset < words.used_from) return true;
  if (!words.contains(offset)) return false;
  const OfSize& others = slack_sizes_.at(sizes_[block]);
  const uint32_t at = offset - others.first;
  return at >= others.holding.size() || others.holding[at] * 2 < others.blocks;
}

bool StaleWords::is_unused(BlockNumber block, uint32_t offset) const {
  return with_unused_.has(block) &&
         std::ranges::binary_search(unused_words_, UnusedWord{block, offset});
}

bool StaleWords::contains(uint64_t source, uint32_t offset, BlockNumber target) const {
  if (source >= texts_.blocks()) return false;
  const auto block = static_cast<BlockNumber>(source);
  if (texts_.contains(block) || is_slack(block, offset)) return true;
  if (is_behind_object(block, offset)) return true;
  if (offset < kNodeWords && links_[offset].contains(block)) return false;
  const bool is_array = arrays_.contains(block) || kind_of(block).pointers == ~uint64_t{0};
  const bool is_told = exact_.contains(block) || is_declared(block, offset);
  // Of arrays, it is the type of their elements that says what they do not use.
  if ((is_array || !is_told) && is_unused(block, offset)) return true;
  const bool is_known = is_array || is_told;
  if (heads_.contains(block) && nodes_.has(target)) return false;
  return !is_known && is_rare(block, offset) && !may_be_link_of_larger(block, offset, target);
}

}  // namespace heapsnap
