#include "analysis/broad_dominators.h"

#include <algorithm>

#include "analysis/block_set.h"

namespace heapsnap {

namespace {

constexpr uint32_t kNoPosition = UINT32_MAX;
// With fewer blocks the graph lies in the processor's caches, and nothing waits for memory.
constexpr BlockNumber kSmallGraph = 500'000;

// A reference that the search did not take, by positions.
struct Reference {
  uint32_t from;
  uint32_t to;
};

struct BreadthFirstTree {
  LargeArray<BlockNumber> blocks;  // by position
  LargeArray<uint32_t> parents;    // positions, by position
  LargeArray<Reference> others;    // ascending by `from`
};

// None where too often there is nothing that could be asked for ahead.
std::optional<BreadthFirstTree> search(const ReferenceGraph& graph, BlockNumber root) {
  // How far ahead memory is asked for: where targets are, the targets, their positions.
  constexpr size_t kAhead = 48;
  constexpr size_t kNear = 32;
  constexpr size_t kNext = 16;
  constexpr size_t kPositions = 8;  // of so many targets of a block
  constexpr BlockNumber kShareOfNarrow = 64;
  const size_t most_narrow =
      graph.blocks() < kSmallGraph ? SIZE_MAX : graph.blocks() / kShareOfNarrow;
  size_t narrow = 0;
  LargeArray<uint32_t> positions(graph.blocks());
  std::fill(positions.begin(), positions.end(), kNoPosition);
  BreadthFirstTree tree;
  tree.blocks.reserve(graph.blocks());
  tree.parents.reserve(graph.blocks());
  positions[root] = 0;
  tree.blocks.push_back(root);
  tree.parents.push_back(0);
  for (uint32_t at = 0; at < tree.blocks.size(); ++at) {
    const size_t known = tree.blocks.size();
    if (at + kNext >= known && ++narrow > most_narrow) return std::nullopt;
    if (at + kAhead < known) graph.prefetch(tree.blocks[at + kAhead]);
    if (at + kNear < known) graph.prefetch_targets(tree.blocks[at + kNear]);
    if (at + kNext < known) {
      const auto soon = graph.targets(tree.blocks[at + kNext]);
      for (const BlockNumber target : soon.first(std::min(soon.size(), kPositions))) {
        __builtin_prefetch(&positions[target], 1);
      }
    }
    for (const BlockNumber target : graph.targets(tree.blocks[at])) {
      uint32_t& position = positions[target];
      if (position == kNoPosition) {
        position = static_cast<uint32_t>(tree.blocks.size());
        tree.blocks.push_back(target);
        tree.parents.push_back(at);
      } else if (position != 0 && position != at && position < known) {
        tree.others.push_back({at, position});
      }
    }
  }
  tree.blocks.shrink();
  tree.parents.shrink();
  return tree;
}

// Makes parents of a tree dominators. False: it takes too long.
bool correct(LargeArray<uint32_t>& parents, LargeArray<Reference> others) {
  constexpr size_t kAhead = 32;
  constexpr size_t kNear = 16;
  constexpr uint64_t kStepsABlock = 16;
  uint64_t steps_left = kStepsABlock * parents.size();
  // A block that has left its first parent must be held by what holds that one, too.
  BlockSet has_left(static_cast<BlockNumber>(parents.size()));
  LargeArray<Reference> from_first_parents;
  for (bool is_right = false; !is_right;) {
    is_right = true;
    size_t kept = 0;
    const size_t count = others.size();
    for (size_t i = 0; i < count; ++i) {
      if (i + kAhead < count) __builtin_prefetch(&parents[others[i + kAhead].to], 1);
      if (i + kNear < count) __builtin_prefetch(&parents[parents[others[i + kNear].to]]);
      const Reference reference = others[i];
      const uint32_t parent = parents[reference.to];
      uint32_t from = reference.from;
      uint32_t holder = parent;
      // A parent has a lower position.
      while (from != holder) {
        if (steps_left-- == 0) return false;
        (from > holder ? from : holder) = parents[std::max(from, holder)];
      }
      if (holder != parent) {
        parents[reference.to] = holder;
        is_right = false;
        if (holder != 0 && has_left.insert(reference.to)) {
          from_first_parents.push_back({parent, reference.to});
        }
      }
      // The root stays above everything.
      if (holder != 0) others[kept++] = reference;
    }
    others.truncate(kept);
    others.append(from_first_parents.span());
    from_first_parents.truncate(0);
  }
  return true;
}

}  // namespace

std::optional<DominatorTree> broad_dominator_tree(const ReferenceGraph& graph, BlockNumber root) {
  std::optional<BreadthFirstTree> found = search(graph, root);
  if (!found || !correct(found->parents, std::move(found->others))) return std::nullopt;
  DominatorTree tree;
  tree.blocks = std::move(found->blocks);
  tree.dominators = std::move(found->parents);
  return tree;
}

}  // namespace heapsnap
