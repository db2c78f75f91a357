#include "analysis/garbage.h"

#include <algorithm>
#include <span>
#include <vector>

#include "analysis/snapshot_blocks.h"
#include "base/large_memory.h"

namespace heapsnap {

namespace {

// By number of type, whether blocks of it are objects that have a collector. Empty: none are.
std::vector<bool> types_of_objects(const RuntimeModel& runtimes,
                                   const std::vector<BlockType>& types) {
  std::vector<bool> result;
  if (runtimes.classes.empty()) return result;
  const std::unordered_set<std::string_view> classes = tracked_classes(runtimes);
  result.reserve(types.size());
  for (const BlockType& type : types) {
    result.push_back(type.source == TypeSource::kRuntime && !is_context_block(type) &&
                     classes.contains(type.name));
  }
  return result;
}

// Those that are not in `reached`.
LargeArray<BlockNumber> unreached_objects(const SnapshotStreams& streams,
                                          const ReferenceStreams& references,
                                          const BlockSet& reached) {
  LargeArray<BlockNumber> objects;
  const BlockNumber blocks = reached.blocks();
  const BlockNumber first_slot = blocks - std::min(slots_of(streams), blocks);
  const std::vector<bool> are_objects =
      types_of_objects(streams.metadata->runtimes, references.types);
  if (!are_objects.empty()) {
    references.read_block_types([&](BlockNumber first, std::span<const TypeNumber> types) {
      for (size_t i = 0; i < types.size() && first + i < first_slot; ++i) {
        const auto block = static_cast<BlockNumber>(first + i);
        if (types[i] < are_objects.size() && are_objects[types[i]] && !reached.contains(block)) {
          objects.push_back(block);
        }
      }
    });
  }
  for (BlockNumber slot = first_slot; slot < blocks; ++slot) {
    if (!reached.contains(slot)) objects.push_back(slot);
  }
  return objects;
}

}  // namespace

std::unordered_set<std::string_view> tracked_classes(const RuntimeModel& runtimes) {
  std::unordered_set<std::string_view> classes;
  for (const RuntimeClass& one : runtimes.classes) {
    if (one.tracked != 0) classes.insert(one.name);
  }
  return classes;
}

bool has_collector(const SnapshotStreams& streams) {
  return slots_of(streams) != 0 || !streams.metadata->runtimes.classes.empty();
}

BlockSet garbage_of(const SnapshotStreams& streams, const ReferenceStreams& references,
                    const ReferenceGraph& graph, const BlockSet& reached) {
  BlockSet garbage(graph.blocks());
  LargeArray<BlockNumber> waiting = unreached_objects(streams, references, reached);
  for (const BlockNumber object : waiting) garbage.insert(object);
  while (!waiting.empty()) {
    const BlockNumber next = waiting.back();
    waiting.pop_back();
    for (const BlockNumber target : graph.targets(next)) {
      if (!reached.contains(target) && garbage.insert(target)) waiting.push_back(target);
    }
  }
  return garbage;
}

}  // namespace heapsnap
