#include "analysis/owning_references.h"

#include <algorithm>
#include <vector>

#include "analysis/reachability.h"
#include "analysis/some_references.h"
#include "analysis/stale_words.h"

namespace heapsnap {

namespace {

BlockSet class_objects(const ReferenceStreams& references, BlockNumber blocks) {
  BlockSet classes(blocks);
  std::vector<bool> are_classes;
  for (const BlockType& type : references.types) are_classes.push_back(is_class_object(type));
  if (std::ranges::find(are_classes, true) == are_classes.end()) return classes;
  references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
    for (size_t i = 0; i < types.size() && first + i < blocks; ++i) {
      if (types[i] < are_classes.size() && are_classes[types[i]]) {
        classes.insert(static_cast<BlockNumber>(first + i));
      }
    }
  });
  return classes;
}

}  // namespace

ReferenceGraph owning_references(const ReferenceStreams& references, const BlockSizes& sizes,
                                 unsigned word, std::span<const BlockNumber> roots) {
  const StaleWords stale(references, sizes, word);
  const BlockSet classes = class_objects(references, static_cast<BlockNumber>(sizes.size()));
  const auto is_weak = [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
    const BlockNumber target = batch.targets[i];
    return batch.interior[i] != 0 || (target < classes.blocks() && classes.contains(target)) ||
           stale.contains(source, batch.offsets[i], target);
  };
  const BlockSet strongly = reachable_blocks(
      graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source,
                                    size_t i) { return !is_weak(batch, source, i); }),
      roots);
  return graph_of_some(references, [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
    const BlockNumber target = batch.targets[i];
    if (target >= strongly.blocks() || !strongly.contains(target)) return true;
    return strongly.contains(static_cast<BlockNumber>(source)) && !is_weak(batch, source, i);
  });
}

}  // namespace heapsnap
