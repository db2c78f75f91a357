#include "analysis/owning_references.h"

#include "analysis/reachability.h"
#include "analysis/some_references.h"
#include "analysis/stale_words.h"

namespace heapsnap {

namespace {

bool has(const BlockSet& blocks, uint64_t block) {
  return block < blocks.blocks() && blocks.contains(static_cast<BlockNumber>(block));
}

}  // namespace

ReferenceGraph owning_references(const ReferenceStreams& references, const BlockSizes& sizes,
                                 unsigned word, std::span<const BlockNumber> roots) {
  const StaleWords stale(references, sizes, word);
  const auto blocks = static_cast<BlockNumber>(sizes.size());
  const BlockSet classes = blocks_of_types(references, blocks, is_class_object);
  const BlockSet contexts = blocks_of_types(references, blocks, is_context_block);
  const auto is_weak = [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
    const BlockNumber target = batch.targets[i];
    return batch.interior[i] != 0 || has(classes, target) ||
           (has(contexts, source) && !has(contexts, target)) ||
           stale.contains(source, batch.offsets[i], target);
  };
  const BlockSet strongly = reachable_blocks(
      graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source,
                                    size_t i) { return !is_weak(batch, source, i); }),
      roots);
  return graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
    const BlockNumber target = batch.targets[i];
    if (!has(strongly, target)) return true;
    return has(strongly, source) && !is_weak(batch, source, i);
  });
}

}  // namespace heapsnap
