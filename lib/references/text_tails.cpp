#include "references/text_tails.h"

#include <algorithm>

namespace heapsnap {

namespace {

constexpr uint32_t kWordBytes = 8;
constexpr uint32_t kFewTails = 16;
// So many of a container's nodes are looked at for short texts, and so many in all.
constexpr size_t kMostOfContainer = 1024;
constexpr size_t kMostLooks = 1 << 16;
constexpr uint32_t kFewShortTexts = 4;
constexpr size_t kFewLooks = 16;  // for each container, where there are many
// What is left over leads to free memory, too. Into the own block leads a string that is short.
constexpr uint64_t kFreeOneIn = 8;
constexpr uint64_t kOwnOneIn = 16;

bool is_before(const TextTail& a, const TextTail& b) {
  return a.word < b.word;
}

// A number for an order that has nothing to do with where nodes lie.
uint32_t shuffled(BlockNumber node) {
  return node * 0x9e3779b1;  // odd: no two have the same
}

}  // namespace

// Whether nodes have texts that lie in themselves.
class TextTails::ShortTexts {
 public:
  ShortTexts(const BlockMap& map, PageCache& cache) : map_(map), cache_(cache) {}

  // Whether some of the first `most` nodes have one that has its tail at `place`.
  bool are_among(const std::vector<BlockNumber>& nodes, const Place& place, size_t most) {
    uint32_t found = 0;
    for (size_t i = 0; i < std::min(most, nodes.size()) && looks_left_ > 0; ++i, --looks_left_) {
      const Address node = map_.address_of(nodes[i]);
      if (map_.usable(node) / kWordBytes != place.words) continue;
      if (is_short(node + uint64_t{place.word - kTailInString} * kWordBytes)) ++found;
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

  const BlockMap& map_;
  PageCache& cache_;
  size_t looks_left_ = kMostLooks;
};

bool TextTails::Evidence::is_left_over() const {
  return free * kFreeOneIn >= tails && own * kOwnOneIn < tails;
}

TextTails::TextTails(std::vector<TextTail> tails, BlockNumber blocks) : tails_(std::move(tails)) {
  if (tails_.empty()) return;
  std::sort(tails_.begin(), tails_.end(), is_before);
  has_tail_ = LargeArray<uint8_t>(blocks);
  for (const TextTail& tail : tails_) has_tail_[tail.word.block] = 1;
}

void TextTails::add(const NodeContainer& container, const NodeSet& nodes) {
  if (tails_.empty()) return;
  LikeNodes like;
  nodes.each([&](BlockNumber node) {
    if (has_tail_[node] != 0) like.with_tails.push_back(node);
  });
  if (nodes.added() >= container.count && like.with_tails.size() < kFewTails) return;
  const uint64_t one_in = std::max<uint64_t>(container.count / kMostOfContainer, 1);
  nodes.each([&](BlockNumber node) {
    if (shuffled(node) <= UINT32_MAX / one_in) like.some.push_back(node);
  });
  const std::lock_guard lock(mutex_);
  LikeNodes& all = containers_[{container.nodes, container.header}];
  all.with_tails.insert(all.with_tails.end(), like.with_tails.begin(), like.with_tails.end());
  all.some.insert(all.some.end(), like.some.begin(), like.some.end());
}

std::vector<UnusedWord> TextTails::find_unused(const BlockMap& map, PageCache& cache) {
  struct Question {
    const LikeNodes& nodes;
    const Place& place;
    Evidence& evidence;
  };
  std::vector<Question> questions;
  for (auto& [where, nodes] : containers_) {
    find_places(nodes);
    std::sort(nodes.some.begin(), nodes.some.end(),
              [](BlockNumber a, BlockNumber b) { return shuffled(a) < shuffled(b); });
    for (auto& [place, evidence] : nodes.places) {
      if (evidence.tails < kFewTails) continue;
      evidence.is_unused = evidence.is_left_over();
      if (!evidence.is_unused) questions.push_back({nodes, place, evidence});
    }
  }
  ShortTexts short_texts(map, cache);
  const size_t share =
      std::clamp(kMostLooks / std::max<size_t>(questions.size(), 1), kFewLooks, kMostOfContainer);
  for (const Question& one : questions) {
    one.evidence.is_unused = short_texts.are_among(one.nodes.some, one.place, share);
  }
  std::vector<UnusedWord> unused;
  for (const auto& [where, nodes] : containers_) {
    each_tail(nodes, [&, &nodes = nodes](const TextTail& tail) {
      if (tail.is_to_block && is_unused(nodes, tail)) unused.push_back(tail.word);
    });
  }
  std::sort(unused.begin(), unused.end());
  unused.erase(std::unique(unused.begin(), unused.end()), unused.end());
  return unused;
}

template <typename Visit>
void TextTails::each_tail(const LikeNodes& nodes, Visit visit) const {
  for (const BlockNumber node : nodes.with_tails) {
    auto tail =
        std::lower_bound(tails_.begin(), tails_.end(), TextTail{.word = {node, 0}}, is_before);
    for (; tail != tails_.end() && tail->word.block == node; ++tail) visit(*tail);
  }
}

void TextTails::find_places(LikeNodes& nodes) const {
  // What is taken for the same container twice.
  std::sort(nodes.with_tails.begin(), nodes.with_tails.end());
  nodes.with_tails.erase(std::unique(nodes.with_tails.begin(), nodes.with_tails.end()),
                         nodes.with_tails.end());
  each_tail(nodes, [&](const TextTail& tail) {
    Evidence& evidence = nodes.places[{tail.words, tail.word.word}];
    ++evidence.tails;
    if (!tail.is_to_block) ++evidence.free;
    if (tail.is_to_own) ++evidence.own;
  });
}

// A rest that is too small for a chunk stays with the one before it.
bool TextTails::is_unused(const LikeNodes& nodes, const TextTail& tail) {
  constexpr uint32_t kRestWords = 2;
  const auto is_unused_in = [&](uint32_t words) {
    const auto place = nodes.places.find({words, tail.word.word});
    return place != nodes.places.end() && place->second.is_unused;
  };
  return is_unused_in(tail.words) ||
         (tail.words > kRestWords && is_unused_in(tail.words - kRestWords));
}

}  // namespace heapsnap
