#include "analysis/owning_references.h"

#include <algorithm>
#include <vector>

#include "analysis/reachability.h"
#include "analysis/some_references.h"
#include "analysis/stale_words.h"

namespace heapsnap {

namespace {

// Those of a type of which `belongs` is true.
BlockSet blocks_of(const ReferenceStreams& references, BlockNumber blocks,
                   bool (*belongs)(const BlockType&)) {
  BlockSet found(blocks);
  std::vector<bool> belonging;
  for (const BlockType& type : references.types) belonging.push_back(belongs(type));
  if (std::ranges::find(belonging, true) == belonging.end()) return found;
  references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
    for (size_t i = 0; i < types.size() && first + i < blocks; ++i) {
      if (types[i] < belonging.size() && belonging[types[i]]) {
        found.insert(static_cast<BlockNumber>(first + i));
      }
    }
  });
  return found;
}

bool has(const BlockSet& blocks, uint64_t block) {
  return block < blocks.blocks() && blocks.contains(static_cast<BlockNumber>(block));
}

}  // namespace

ReferenceGraph owning_references(const ReferenceStreams& references, const BlockSizes& sizes,
                                 unsigned word, std::span<const BlockNumber> roots) {
  const StaleWords stale(references, sizes, word);
  const auto blocks = static_cast<BlockNumber>(sizes.size());
  const BlockSet classes = blocks_of(references, blocks, is_class_object);
  const BlockSet contexts = blocks_of(references, blocks, is_context_block);
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
