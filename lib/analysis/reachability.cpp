#include "analysis/reachability.h"

#include "base/error.h"

namespace heapsnap {

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

}  // namespace heapsnap
