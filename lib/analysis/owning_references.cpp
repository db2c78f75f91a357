#include "analysis/owning_references.h"

#include <functional>
#include <vector>

#include "analysis/reachability.h"
#include "references/container_storage.h"

namespace heapsnap {

namespace {

// Of how many blocks of each size each word holds an address. Larger ones are arrays, whose words
// are alike.
class HeldWords final : public ReferenceSink {
 public:
  HeldWords(const BlockSizes& sizes, unsigned word)
      : sizes_(sizes),
        word_(word),
        words_(kLargest / word + 1),
        blocks_(words_),
        holding_(words_ * words_) {
    for (size_t block = 0; block < sizes.size(); ++block) {
      const size_t size = words_of(static_cast<BlockNumber>(block));
      if (size < words_) ++blocks_[size];
    }
  }

  void on_references(const ReferenceBatch& batch) override {
    size_t next = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      const size_t end = next + batch.counts[i];
      const size_t size = size_of(batch.first + i);
      for (; next < end; ++next) {
        if (size < words_ && batch.offsets[next] < words_) {
          ++holding_[size * words_ + batch.offsets[next]];
        }
      }
    }
  }
  // In words; of an array more than any that is counted.
  size_t size_of(uint64_t block) const {
    return block < sizes_.size() ? words_of(static_cast<BlockNumber>(block)) : words_;
  }
  bool is_rare(size_t size, uint32_t offset) const {
    constexpr uint64_t kFewBlocks = 16;
    constexpr uint64_t kOneIn = 8;
    if (size >= words_ || offset >= words_ || blocks_[size] < kFewBlocks) return false;
    return holding_[size * words_ + offset] * kOneIn < blocks_[size];
  }

 private:
  static constexpr uint64_t kLargest = 512;

  size_t words_of(BlockNumber block) const {
    const uint64_t size = sizes_[block] / word_;
    return size < words_ ? size : words_;
  }

  const BlockSizes& sizes_;
  unsigned word_;
  size_t words_;
  std::vector<uint64_t> blocks_;   // by size in words
  std::vector<uint64_t> holding_;  // by size and offset in words
};

// The blocks that hold characters, in which words are no addresses: behind the end of a text lies
// what was there before.
BlockSet texts_of(const ReferenceStreams& references, BlockNumber blocks) {
  std::vector<bool> is_text;
  for (const BlockType& type : references.types) {
    is_text.push_back(type.source == TypeSource::kStructure &&
                      (type.name == to_string(StorageKind::kText) ||
                       type.name == to_string(StorageKind::kText16) ||
                       type.name == to_string(StorageKind::kText32)));
  }
  BlockSet texts(blocks);
  references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
    for (size_t i = 0; i < types.size() && first + i < blocks; ++i) {
      if (types[i] < is_text.size() && is_text[types[i]]) {
        texts.insert(first + static_cast<BlockNumber>(i));
      }
    }
  });
  return texts;
}

// Gathers a graph of some of the references.
class SomeReferences final : public ReferenceSink {
 public:
  // `keeps_weak`: of a block, whether weak references to it are kept.
  using KeepsWeak = std::function<bool(BlockNumber)>;
  SomeReferences(const HeldWords& words, const BlockSet& texts, ReferenceGraph& graph,
                 KeepsWeak keeps_weak)
      : words_(words), texts_(texts), sink_(graph), keeps_weak_(std::move(keeps_weak)) {}

  void on_references(const ReferenceBatch& batch) override {
    counts_.clear();
    targets_.clear();
    size_t next = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      const size_t begin = targets_.size();
      const size_t end = next + batch.counts[i];
      const uint64_t source = batch.first + i;
      const size_t size = words_.size_of(source);
      const bool is_text =
          source < texts_.blocks() && texts_.contains(static_cast<BlockNumber>(source));
      for (; next < end; ++next) {
        const bool is_weak =
            is_text || batch.interior[next] != 0 || words_.is_rare(size, batch.offsets[next]);
        if (!is_weak || keeps_weak_(batch.targets[next])) targets_.push_back(batch.targets[next]);
      }
      counts_.push_back(static_cast<uint32_t>(targets_.size() - begin));
    }
    sink_.on_references({batch.first, counts_, {}, targets_, {}});
  }

 private:
  const HeldWords& words_;
  const BlockSet& texts_;
  ReferenceGraphSink sink_;
  KeepsWeak keeps_weak_;
  std::vector<uint32_t> counts_;
  std::vector<BlockNumber> targets_;
};

}  // namespace

ReferenceGraph owning_references(const ReferenceStreams& references, const BlockSizes& sizes,
                                 unsigned word, std::span<const BlockNumber> roots) {
  HeldWords words(sizes, word);
  references.read_references(words);
  const BlockSet texts = texts_of(references, static_cast<BlockNumber>(sizes.size()));
  BlockSet strongly;
  {
    ReferenceGraph strong;
    SomeReferences sink(words, texts, strong, [](BlockNumber) { return false; });
    references.read_references(sink);
    strong.finish();
    strongly = reachable_blocks(strong, roots);
  }
  ReferenceGraph graph;
  SomeReferences sink(words, texts, graph, [&strongly](BlockNumber target) {
    return target >= strongly.blocks() || !strongly.contains(target);
  });
  references.read_references(sink);
  graph.finish();
  return graph;
}

}  // namespace heapsnap
