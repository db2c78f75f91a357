#include "analysis/owning_references.h"

#include <vector>

#include "analysis/reachability.h"
#include "analysis/some_references.h"
#include "analysis/stale_words.h"

namespace heapsnap {

ReferenceGraph owning_references(const ReferenceStreams& references, const BlockSizes& sizes,
                                 unsigned word, const MeantTargets& roots,
                                 const OwnedNodes& nodes) {
  const StaleWords stale(references, sizes, word);
  const auto blocks = static_cast<BlockNumber>(sizes.size());
  const BlockSet classes = blocks_of_types(references, blocks, is_class_object);
  const BlockSet contexts = blocks_of_types(references, blocks, is_context_block);
  const auto owns_last = [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
    const BlockNumber target = batch.targets[i];
    return (contexts.has(source) && !contexts.has(target)) ||
           stale.contains(source, batch.offsets[i], target) || nodes.is_beside(batch, source, i);
  };
  const auto is_weak = [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
    return batch.interior[i] != 0 || classes.has(batch.targets[i]) || owns_last(batch, source, i);
  };
  // Each of these sets comes before the next: a block owns none of a set before its own.
  ReferenceGraph strong =
      graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
        return !is_weak(batch, source, i);
      });
  require_block_count(strong.blocks(), sizes.size());
  const BlockSet strongly = reachable_blocks(strong, roots.lasting);
  BlockSet by_frames = strongly.copy();
  reach_more(strong, roots.of_frames, by_frames);
  strong.release();
  BlockSet surely(blocks);  // by weak ones, too, but none that owns last
  std::vector<BlockNumber> next = roots.inside;
  const ReferenceGraph rest =
      graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
        const BlockNumber target = batch.targets[i];
        if (strongly.has(target) || owns_last(batch, source, i)) return false;
        if (!strongly.has(source)) return true;
        next.push_back(target);
        return false;
      });
  reach_more(rest, next, surely);
  return graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
    const BlockNumber target = batch.targets[i];
    if (strongly.has(target)) return strongly.has(source) && !is_weak(batch, source, i);
    if (surely.has(target)) {
      return (strongly.has(source) || surely.has(source)) && !owns_last(batch, source, i);
    }
    return !by_frames.has(target) || (by_frames.has(source) && !is_weak(batch, source, i));
  });
}

}  // namespace heapsnap
