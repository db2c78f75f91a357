#include "analysis/owning_references.h"

#include "analysis/reachability.h"
#include "analysis/some_references.h"
#include "analysis/stale_words.h"

namespace heapsnap {

ReferenceGraph owning_references(const ReferenceStreams& references, const BlockSizes& sizes,
                                 unsigned word, std::span<const BlockNumber> roots) {
  const StaleWords stale(references, sizes, word);
  const auto is_weak = [&stale](const ReferenceBatch& batch, uint64_t source, size_t i) {
    return batch.interior[i] != 0 || stale.contains(source, batch.offsets[i], batch.targets[i]);
  };
  const BlockSet strongly = reachable_blocks(
      graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source,
                                    size_t i) { return !is_weak(batch, source, i); }),
      roots);
  return graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
    const BlockNumber target = batch.targets[i];
    return !is_weak(batch, source, i) || target >= strongly.blocks() || !strongly.contains(target);
  });
}

}  // namespace heapsnap
