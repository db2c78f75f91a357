#include "references/text_tails.h"

#include <algorithm>
#include <array>
#include <map>

namespace heapsnap {

namespace {

constexpr uint32_t kWordBytes = 8;
constexpr uint32_t kFewTails = 16;
constexpr uint32_t kFewShortTexts = 4;
// Blocks of a class that are looked at for short texts, spread over all of them; and of all
// classes.
constexpr uint64_t kMostOfClass = 4096;
constexpr uint64_t kMostLooks = 1 << 16;
// What is left over leads to free memory, too. Into the own block leads a string that is short.
constexpr uint64_t kFreeOneIn = 8;
constexpr uint64_t kOwnOneIn = 16;
// Two words are too few for a chunk: they stay with the one before them.
constexpr uint32_t kRestWords = 2;

StorageKind node_kind(StorageKind kind) {
  return kind <= StorageKind::kHashNode ? kind : StorageKind::kNone;
}

// What strings at one word of such blocks have in common.
struct TailClass {
  StorageKind node = StorageKind::kNone;
  uint32_t words = 0;
  uint32_t word = 0;
  auto operator<=>(const TailClass&) const = default;
};

struct Evidence {
  uint64_t tails = 0;
  uint64_t free = 0;         // of these: that lead to no block in use
  uint64_t own = 0;          // that lead into the block they lie in
  uint64_t blocks = 0;       // of that size and kind, whatever lies in them; where it is asked for
  uint64_t passed = 0;       // of these
  uint64_t step = 1;         // one in so many is looked at
  uint64_t short_texts = 0;  // of those

  bool is_enough() const { return tails >= kFewTails; }
  bool is_of_strings() const {
    return short_texts >= kFewShortTexts && short_texts * step >= tails;
  }
};

class TailClasses {
 public:
  TailClasses(const std::vector<TextTail>& tails,
              const std::function<StorageKind(BlockNumber)>& kind_of)
      : kind_of_(kind_of) {
    for (const TextTail& tail : tails) {
      Evidence& evidence = classes_[class_of(tail)];
      ++evidence.tails;
      if (!tail.is_to_block) ++evidence.free;
      if (tail.is_to_own) ++evidence.own;
    }
  }

  void look_for_short_texts(const BlockMap& map, PageCache& cache) {
    for (auto& [tail_class, evidence] : classes_) {
      if (!evidence.is_enough() || are_of_elements(tail_class, evidence)) continue;
      wanted_.at(tail_class.words).push_back({&tail_class, &evidence});
      ++wanted_classes_;
    }
    if (wanted_classes_ == 0) return;
    each_wanted(map,
                [](const BlockMap::Part&, const Wanted& wanted) { ++wanted.evidence->blocks; });
    const uint64_t most =
        std::clamp<uint64_t>(kMostLooks / wanted_classes_, kFewTails, kMostOfClass);
    each_wanted(map, [&](const BlockMap::Part& whole, const Wanted& wanted) {
      Evidence& evidence = *wanted.evidence;
      evidence.step = (evidence.blocks + most - 1) / most;
      if (evidence.passed++ % evidence.step != 0) return;
      const uint64_t word = wanted.tail_class->word - kTailInString;
      if (is_short(whole.block_begin + word * kWordBytes, cache)) ++evidence.short_texts;
    });
  }

  bool is_unused(const TextTail& tail) const {
    TailClass tail_class = class_of(tail);
    auto known = classes_.find(tail_class);
    if (!known->second.is_enough() && tail_class.node != StorageKind::kNone) {
      tail_class.words -= kRestWords;
      known = classes_.find(tail_class);
    }
    if (known == classes_.end() || !known->second.is_enough()) return false;
    return known->second.is_of_strings() || are_of_elements(tail_class, known->second);
  }

 private:
  struct Wanted {
    const TailClass* tail_class;
    Evidence* evidence;
  };

  TailClass class_of(const TextTail& tail) const {
    return {node_kind(kind_of_(tail.word.block)), tail.words, tail.word.word};
  }

  static bool are_of_elements(const TailClass& tail_class, const Evidence& evidence) {
    return tail_class.node != StorageKind::kNone && evidence.free * kFreeOneIn >= evidence.tails &&
           evidence.own * kOwnOneIn < evidence.tails;
  }

  // Calls visit(whole, wanted) for each block and each class that it is of.
  template <typename Visit>
  void each_wanted(const BlockMap& map, Visit visit) const {
    const auto look_at = [&](const BlockMap::Part& whole) {
      const uint64_t words = whole.bytes.size() / kWordBytes;
      if (words > kMostWordsWithText || wanted_.at(words).empty()) return;
      const StorageKind node = node_kind(kind_of_(whole.block));
      for (const Wanted& wanted : wanted_.at(words)) {
        if (wanted.tail_class->node == node) visit(whole, wanted);
      }
    };
    for (const AddressRange& memory : map.memory()) map.each_part(memory, look_at);
  }

  static bool is_short(Address string, PageCache& cache) {
    constexpr uint64_t kBuffer = 16;  // after so many bytes
    constexpr uint64_t kLongest = 15;
    const auto size = cache.word(string + kWordBytes, kWordBytes);
    return cache.word(string, kWordBytes) == (string + kBuffer).value() && size &&
           *size <= kLongest;
  }

  const std::function<StorageKind(BlockNumber)>& kind_of_;
  std::map<TailClass, Evidence> classes_;
  std::array<std::vector<Wanted>, kMostWordsWithText + 1> wanted_;  // by words of the block
  uint64_t wanted_classes_ = 0;
};

}  // namespace

std::vector<UnusedWord> unused_tails(const std::vector<TextTail>& tails, const BlockMap& map,
                                     const std::function<StorageKind(BlockNumber)>& kind_of,
                                     PageCache& cache) {
  TailClasses classes(tails, kind_of);
  classes.look_for_short_texts(map, cache);
  std::vector<UnusedWord> unused;
  for (const TextTail& tail : tails) {
    if (tail.is_to_block && classes.is_unused(tail)) unused.push_back(tail.word);
  }
  std::sort(unused.begin(), unused.end());
  unused.erase(std::unique(unused.begin(), unused.end()), unused.end());
  return unused;
}

}  // namespace heapsnap
