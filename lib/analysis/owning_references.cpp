#include "analysis/owning_references.h"

#include <algorithm>
#include <vector>

#include "analysis/reachability.h"
#include "analysis/some_references.h"
#include "analysis/stale_words.h"

namespace heapsnap {

namespace {

// Classes of language runtimes and what is theirs.
class ClassBlocks {
 public:
  ClassBlocks(const ReferenceStreams& references, BlockNumber blocks)
      : classes_(blocks), data_(blocks), of_runtime_(blocks) {
    const std::vector<BlockType>& all = references.types;
    has_any_ = std::ranges::any_of(all, is_class_object);
    if (!has_any_) return;
    references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
      for (size_t i = 0; i < types.size() && first + i < blocks; ++i) {
        if (types[i] >= all.size()) continue;
        const BlockType& type = all[types[i]];
        const auto block = static_cast<BlockNumber>(first + i);
        if (type.source == TypeSource::kRuntime) of_runtime_.insert(block);
        if (is_class_object(type)) classes_.insert(block);
        if (is_class_object(type) || type.name == kRubyClassData) data_.insert(block);
      }
    });
  }

  bool is_weak(uint64_t source, BlockNumber target) const {
    if (!has_any_ || target >= classes_.blocks() || source >= classes_.blocks()) return false;
    return classes_.contains(target) ||
           (data_.contains(static_cast<BlockNumber>(source)) && !of_runtime_.contains(target));
  }

 private:
  bool has_any_ = false;
  BlockSet classes_;
  BlockSet data_;        // classes, and what they have beside themselves
  BlockSet of_runtime_;  // of which a runtime says the type
};

}  // namespace

ReferenceGraph owning_references(const ReferenceStreams& references, const BlockSizes& sizes,
                                 unsigned word, std::span<const BlockNumber> roots) {
  const StaleWords stale(references, sizes, word);
  const ClassBlocks classes(references, static_cast<BlockNumber>(sizes.size()));
  const auto is_weak = [&](const ReferenceBatch& batch, uint64_t source, size_t i) {
    const BlockNumber target = batch.targets[i];
    return batch.interior[i] != 0 || classes.is_weak(source, target) ||
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
