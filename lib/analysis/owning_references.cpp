#include "analysis/owning_references.h"

#include <functional>
#include <vector>

#include "analysis/reachability.h"
#include "analysis/stale_words.h"

namespace heapsnap {

namespace {

// Gathers a graph of some of the references.
class SomeReferences final : public ReferenceSink {
 public:
  // `keeps_weak`: of a block, whether weak references to it are kept.
  using KeepsWeak = std::function<bool(BlockNumber)>;
  SomeReferences(const StaleWords& stale, ReferenceGraph& graph, KeepsWeak keeps_weak)
      : stale_(stale), sink_(graph), keeps_weak_(std::move(keeps_weak)) {}

  void on_references(const ReferenceBatch& batch) override {
    counts_.clear();
    targets_.clear();
    size_t next = 0;
    for (size_t i = 0; i < batch.counts.size(); ++i) {
      const size_t begin = targets_.size();
      const size_t end = next + batch.counts[i];
      for (; next < end; ++next) {
        const bool is_weak =
            batch.interior[next] != 0 || stale_.contains(batch.first + i, batch.offsets[next]);
        if (!is_weak || keeps_weak_(batch.targets[next])) targets_.push_back(batch.targets[next]);
      }
      counts_.push_back(static_cast<uint32_t>(targets_.size() - begin));
    }
    sink_.on_references({batch.first, counts_, {}, targets_, {}});
  }

 private:
  const StaleWords& stale_;
  ReferenceGraphSink sink_;
  KeepsWeak keeps_weak_;
  std::vector<uint32_t> counts_;
  std::vector<BlockNumber> targets_;
};

}  // namespace

ReferenceGraph owning_references(const ReferenceStreams& references, const BlockSizes& sizes,
                                 unsigned word, std::span<const BlockNumber> roots) {
  const StaleWords stale(references, sizes, word);
  BlockSet strongly;
  {
    ReferenceGraph strong;
    SomeReferences sink(stale, strong, [](BlockNumber) { return false; });
    references.read_references(sink);
    strong.finish();
    strongly = reachable_blocks(strong, roots);
  }
  ReferenceGraph graph;
  SomeReferences sink(stale, graph, [&strongly](BlockNumber target) {
    return target >= strongly.blocks() || !strongly.contains(target);
  });
  references.read_references(sink);
  graph.finish();
  return graph;
}

}  // namespace heapsnap
