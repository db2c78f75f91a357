#include "analysis/reachability.h"

#include "base/error.h"

namespace heapsnap {

namespace {

BlockSet copy_of(const BlockSet& set) {
  BlockSet copy(set.blocks());
  for (BlockNumber block = 0; block < set.blocks(); ++block) {
    if (set.contains(block)) copy.insert(block);
  }
  return copy;
}

// Adds `start` and what it leads to, if it is not in the set yet; says whether it was added.
// `waiting` is empty, and is again afterwards.
bool reach_from(const ReferenceGraph& graph, BlockNumber start, BlockSet& reached,
                LargeArray<BlockNumber>& waiting) {
  if (!reached.insert(start)) return false;
  waiting.push_back(start);
  while (!waiting.empty()) {
    const BlockNumber next = waiting.back();
    waiting.pop_back();
    for (const BlockNumber target : graph.targets(next)) {
      if (reached.insert(target)) waiting.push_back(target);
    }
  }
  return true;
}

}  // namespace

std::vector<BlockNumber> targets_of(std::span<const Root> roots) {
  std::vector<BlockNumber> targets;
  targets.reserve(roots.size());
  for (const Root& root : roots) targets.push_back(root.target);
  return targets;
}

void reach_more(const ReferenceGraph& graph, std::span<const BlockNumber> roots,
                BlockSet& reached) {
  // How far ahead of the block that is looked at memory is asked for: where the targets of a block
  // are, and half of the way later the targets.
  constexpr size_t kAhead = 32;
  constexpr size_t kNear = 16;
  // One more: what is written last may be no new block.
  LargeArray<BlockNumber> queue(size_t{graph.blocks()} + 1);
  size_t end = 0;
  const auto reach = [&](BlockNumber block) {
    queue[end] = block;
    end += reached.insert(block) ? 1 : 0;  // without a branch: half of them are not new
  };
  for (const BlockNumber root : roots) {
    if (root >= graph.blocks()) {
      throw Error(ErrorKind::kBadInput, "the roots", "one leads to a block that is not there");
    }
    reach(root);
  }
  for (size_t next = 0; next < end; ++next) {
    if (next + kAhead < end) graph.prefetch(queue[next + kAhead]);
    if (next + kNear < end) graph.prefetch_targets(queue[next + kNear]);
    for (const BlockNumber target : graph.targets(queue[next])) reach(target);
  }
}

BlockSet reachable_blocks(const ReferenceGraph& graph, std::span<const BlockNumber> roots) {
  BlockSet reached(graph.blocks());
  reach_more(graph, roots, reached);
  reached.count();
  return reached;
}

// Whatever order blocks are tried in: of a cycle that no other block leads to, the first one tried
// is found new, and so is each block that nothing leads to. The others that are found new are led
// to by ones that are tried later. So of all that were found new, those that are found new once
// more in the opposite order are what is wanted.
std::vector<BlockNumber> sources_of_rest(const ReferenceGraph& graph, const BlockSet& reached) {
  LargeArray<BlockNumber> waiting;
  LargeArray<BlockNumber> candidates;
  {
    BlockSet seen = copy_of(reached);
    for (BlockNumber block = 0; block < graph.blocks(); ++block) {
      if (reach_from(graph, block, seen, waiting)) candidates.push_back(block);
    }
  }
  BlockSet seen = copy_of(reached);
  std::vector<BlockNumber> sources;
  for (size_t i = candidates.size(); i-- > 0;) {
    if (reach_from(graph, candidates[i], seen, waiting)) sources.push_back(candidates[i]);
  }
  return sources;
}

}  // namespace heapsnap
