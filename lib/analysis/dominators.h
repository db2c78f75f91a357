// Which block keeps which others: dominators, and what each retains.
//
// A block dominates another when each path from the root to the other leads through it: with it,
// the other would go. The nearest such block is the immediate dominator; these form a tree.
//
//   root ─► a ─► b ─► d        dominators:  root ─► a ─► b
//           └──► c ─► d                             ├──► c
//                                                   └──► d      d has two ways from a
//
// Blocks are numbered by their places in the order of a search, breadth first (broad_dominators.h)
// or, where that is of no use, depth first (deep_dominators.h): a dominator comes before what it
// dominates, and what is near in the tree is near in memory.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/reference_graph.h"
#include "base/large_memory.h"

namespace heapsnap {

struct DominatorTree {
  // The block at each position; the root at 0. Blocks that the root does not reach have none.
  LargeArray<BlockNumber> blocks;
  // Position of the immediate dominator, which is less than the own one; of the root 0.
  LargeArray<uint32_t> dominators;

  uint32_t size() const { return static_cast<uint32_t>(blocks.size()); }
};

// At most 40 bytes a block where each has one reference and a half, the graph included, which is
// given back as soon as it is not needed. Empty where `root` is none of the blocks.
DominatorTree dominator_tree(ReferenceGraph graph, BlockNumber root);

// What each position retains: itself and all that it dominates.
struct RetainedSizes {
  LargeArray<uint64_t> bytes;
  LargeArray<uint32_t> blocks;
};

// `bytes_of(block)`: of the block itself. Blocks from `first_virtual` on are none and count 0.
template <typename BytesOf>
RetainedSizes retained_sizes(const DominatorTree& tree, BlockNumber first_virtual,
                             BytesOf bytes_of) {
  constexpr uint32_t kAhead = 32;
  RetainedSizes result{LargeArray<uint64_t>(tree.size()), LargeArray<uint32_t>(tree.size())};
  for (uint32_t at = tree.size(); at-- > 0;) {
    if (at >= kAhead) __builtin_prefetch(&result.bytes[tree.dominators[at - kAhead]], 1);
    if (at >= kAhead) __builtin_prefetch(&result.blocks[tree.dominators[at - kAhead]], 1);
    const BlockNumber block = tree.blocks[at];
    if (block < first_virtual) {
      result.bytes[at] += bytes_of(block);
      ++result.blocks[at];
    }
    if (at == 0) break;
    result.bytes[tree.dominators[at]] += result.bytes[at];
    result.blocks[tree.dominators[at]] += result.blocks[at];
  }
  return result;
}

}  // namespace heapsnap
