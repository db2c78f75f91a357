#include "references/text_tails.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace heapsnap {

namespace {

constexpr uint32_t kWordBytes = 8;
constexpr uint32_t kFewTails = 16;
constexpr uint32_t kFewShortTexts = 4;
// Nodes of a container that are looked at for short texts, and looks in all.
constexpr size_t kMostOfContainer = 4096;
constexpr uint64_t kMostLooks = 1 << 16;
// What is left over leads to free memory, too. Into the own block leads a string that is short.
constexpr uint64_t kFreeOneIn = 8;
constexpr uint64_t kOwnOneIn = 16;

// Of the tails at one word of a container's nodes.
struct Evidence {
  uint64_t tails = 0;
  uint64_t free = 0;  // of these: that lead to no block in use
  uint64_t own = 0;   // that lead into the block they lie in

  bool is_left_over() const { return free * kFreeOneIn >= tails && own * kOwnOneIn < tails; }
};

bool is_before(const TextTail& a, const TextTail& b) {
  return a.word < b.word;
}

}  // namespace

// Whether nodes have texts that lie in themselves.
class TextTails::ShortTexts {
 public:
  ShortTexts(const std::vector<LikeNodes>& containers, const BlockMap& map, PageCache& cache)
      : cache_(cache) {
    LargeArray<uint8_t> is_wanted(map.blocks());
    for (const LikeNodes& nodes : containers) {
      for (const BlockNumber node : nodes.some) is_wanted[node] = 1;
    }
    for (const AddressRange& memory : map.memory()) {
      map.each_part(memory, [&](const BlockMap::Part& whole) {
        if (is_wanted[whole.block] != 0) addresses_.emplace_back(whole.block, whole.block_begin);
      });
    }
    std::sort(addresses_.begin(), addresses_.end());
  }

  // Whether some of the nodes have one with its first word at `word`.
  bool are_among(const std::vector<BlockNumber>& nodes, uint32_t word) {
    uint32_t found = 0;
    for (const BlockNumber node : nodes) {
      if (looks_left_ == 0) return false;
      --looks_left_;
      const auto known =
          std::lower_bound(addresses_.begin(), addresses_.end(), std::pair(node, Address()));
      if (known == addresses_.end() || known->first != node) continue;
      if (is_short(known->second + uint64_t{word} * kWordBytes)) ++found;
      if (found == kFewShortTexts) return true;
    }
    return false;
  }

 private:
  bool is_short(Address string) {
    constexpr uint64_t kBuffer = 16;  // after so many bytes
    constexpr uint64_t kLongest = 15;
    const auto size = cache_.word(string + kWordBytes, kWordBytes);
    return cache_.word(string, kWordBytes) == (string + kBuffer).value() && size &&
           *size <= kLongest;
  }

  PageCache& cache_;
  uint64_t looks_left_ = kMostLooks;
  std::vector<std::pair<BlockNumber, Address>> addresses_;  // ascending
};

TextTails::TextTails(std::vector<TextTail> tails, BlockNumber blocks) : tails_(std::move(tails)) {
  if (tails_.empty()) return;
  std::sort(tails_.begin(), tails_.end(), is_before);
  has_tail_ = LargeArray<uint8_t>(blocks);
  for (const TextTail& tail : tails_) has_tail_[tail.word.block] = 1;
}

void TextTails::add_container(const NodeSet& nodes) {
  if (tails_.empty()) return;
  LikeNodes like;
  nodes.each([&](BlockNumber node) {
    if (has_tail_[node] != 0) like.with_tails.push_back(node);
    if (like.some.size() < kMostOfContainer) like.some.push_back(node);
  });
  if (like.with_tails.size() < kFewTails) return;
  const std::lock_guard lock(mutex_);
  containers_.push_back(std::move(like));
}

std::vector<UnusedWord> TextTails::find_unused(const BlockMap& map, PageCache& cache) {
  std::vector<UnusedWord> unused;
  if (containers_.empty()) return unused;
  ShortTexts short_texts(containers_, map, cache);
  for (const LikeNodes& nodes : containers_) find_unused(nodes, short_texts, unused);
  std::sort(unused.begin(), unused.end());
  unused.erase(std::unique(unused.begin(), unused.end()), unused.end());
  return unused;
}

void TextTails::find_unused(const LikeNodes& nodes, ShortTexts& short_texts,
                            std::vector<UnusedWord>& unused) {
  const auto each_tail = [&](auto visit) {
    for (const BlockNumber node : nodes.with_tails) {
      const auto first =
          std::lower_bound(tails_.begin(), tails_.end(), TextTail{.word = {node, 0}}, is_before);
      for (auto tail = first; tail != tails_.end() && tail->word.block == node; ++tail) {
        visit(*tail);
      }
    }
  };
  std::map<uint32_t, Evidence> by_word;
  each_tail([&](const TextTail& tail) {
    Evidence& evidence = by_word[tail.word.word];
    ++evidence.tails;
    if (!tail.is_to_block) ++evidence.free;
    if (tail.is_to_own) ++evidence.own;
  });
  std::erase_if(by_word, [&](const auto& entry) {
    const auto& [word, evidence] = entry;
    return evidence.tails < kFewTails ||
           !(evidence.is_left_over() || short_texts.are_among(nodes.some, word - kTailInString));
  });
  each_tail([&](const TextTail& tail) {
    if (tail.is_to_block && by_word.contains(tail.word.word)) unused.push_back(tail.word);
  });
}

}  // namespace heapsnap
