#include "analysis/nameless_variables.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include "analysis/block_set.h"
#include "analysis/reachability.h"
#include "base/large_memory.h"

namespace heapsnap {

namespace {

bool is_nameless(const RootPlace& place) {
  return place.name.empty() &&
         (place.kind == RootKind::kVariable || place.kind == RootKind::kThreadLocal);
}

// Finds which words of places without a name are one variable.
class NamelessWords {
 public:
  NamelessWords(const ReferenceGraph& graph, const BlockSizes& sizes, unsigned word)
      : graph_(graph), sizes_(sizes), word_(word) {}

  // `words`: sorted by place and offset. What `named` holds, something with a name leads to.
  void unite(std::span<const Root* const> words, const BlockSet& named) {
    words_ = words;
    first_.resize(words.size());
    std::iota(first_.begin(), first_.end(), 0);
    unite_arrays();
    spread(named);
  }
  // The first of the words that are one variable with `i`.
  uint32_t first(uint32_t i) {
    while (first_[i] != i) i = first_[i] = first_[first_[i]];
    return i;
  }

 private:
  // As far apart as the words of one header: std::deque's are 80 bytes.
  static constexpr uint64_t kHeader = 96;
  static constexpr size_t kFewestElements = 3;

  void join(uint32_t a, uint32_t b) {
    const uint32_t one = first(a);
    const uint32_t other = first(b);
    first_[std::max(one, other)] = std::min(one, other);
  }

  bool follows(uint32_t i) const {
    const Root& before = *words_[i - 1];
    const Root& word = *words_[i];
    return before.place == word.place && word.offset - before.offset == word_ && !before.interior &&
           !word.interior && sizes_[before.target] == sizes_[word.target];
  }
  void unite_arrays() {
    for (uint32_t begin = 0; begin < words_.size();) {
      uint32_t end = begin + 1;
      while (end < words_.size() && follows(end)) ++end;
      if (end - begin >= kFewestElements) {
        for (uint32_t i = begin + 1; i < end; ++i) join(begin, i);
      }
      begin = end;
    }
  }

  // Breadth-first from all words at once: where two meet that are near each other, they are one.
  void spread(const BlockSet& named) {
    LargeArray<uint32_t> word_of(graph_.blocks());  // and one; 0: none yet
    LargeArray<BlockNumber> queue;
    const auto reach = [&](BlockNumber block, uint32_t word) {
      if (named.contains(block)) return;
      uint32_t& known = word_of[block];
      if (known == 0) {
        known = word + 1;
        queue.push_back(block);
      } else if (known != word + 1) {
        meet(known - 1, word);
      }
    };
    for (uint32_t i = 0; i < words_.size(); ++i) reach(words_[i]->target, i);
    for (size_t next = 0; next < queue.size(); ++next) {
      const BlockNumber block = queue[next];
      for (const BlockNumber target : graph_.targets(block)) reach(target, word_of[block] - 1);
    }
  }
  void meet(uint32_t a, uint32_t b) {
    const Root& one = *words_[std::min(a, b)];
    const Root& other = *words_[std::max(a, b)];
    if (one.place == other.place && other.offset - one.offset < kHeader) join(a, b);
  }

  const ReferenceGraph& graph_;
  const BlockSizes& sizes_;
  unsigned word_;
  std::span<const Root* const> words_;
  std::vector<uint32_t> first_;
};

}  // namespace

void tell_apart(std::vector<Root>& roots, std::vector<RootPlace>& places,
                const std::vector<bool>& are_beside, const ReferenceGraph& graph,
                const BlockSizes& sizes, unsigned word) {
  // What a damaged or strange file could need at most; the rest stays where it is.
  constexpr size_t kMostVariables = 1 << 17;
  std::vector<const Root*> nameless;
  std::vector<BlockNumber> of_named;
  for (size_t i = 0; i < roots.size(); ++i) {
    const Root& root = roots[i];
    const RootPlace& place = places[root.place];
    if (is_nameless(place)) {
      nameless.push_back(&root);
    } else if (!are_beside[i] && place.kind != RootKind::kStack &&
               place.kind != RootKind::kRegister) {
      of_named.push_back(root.target);
    }
  }
  if (nameless.empty()) return;
  NamelessWords words(graph, sizes, word);
  words.unite(nameless, reachable_blocks(graph, of_named));

  std::vector<uint64_t> end_of(nameless.size());  // by first word: behind the last one
  for (uint32_t i = 0; i < nameless.size(); ++i) {
    uint64_t& end = end_of[words.first(i)];
    end = std::max(end, nameless[i]->offset + word);
  }
  std::unordered_map<uint32_t, uint32_t> place_of;  // by first word
  std::vector<uint32_t> new_places(nameless.size());
  for (uint32_t i = 0; i < nameless.size(); ++i) {
    const uint32_t first = words.first(i);
    const Root& root = *nameless[first];
    if (place_of.size() < kMostVariables && !place_of.contains(first)) {
      RootPlace place = places[root.place];
      place.begin = place.begin + root.offset;
      place.module_offset += root.offset;
      place.size = end_of[first] - root.offset;
      place_of.emplace(first, static_cast<uint32_t>(places.size()));
      places.push_back(std::move(place));
    }
    const auto found = place_of.find(first);
    new_places[i] = found == place_of.end() ? root.place : found->second;
  }
  for (size_t i = 0; i < nameless.size(); ++i) {
    roots[static_cast<size_t>(nameless[i] - roots.data())].place = new_places[i];
  }
}

}  // namespace heapsnap
