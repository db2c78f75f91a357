// Which block keeps which others: dominators, and what each retains.
//
// A block dominates another when each path from the root to the other leads through it: with it,
// the other would go. The nearest such block is the immediate dominator; these form a tree.
//
//   root ─► a ─► b ─► d        dominators:  root ─► a ─► b
//           └──► c ─► d                             ├──► c
//                                                   └──► d      d has two ways from a
//
// Semi-NCA: Loukas Georgiadis, "Linear-Time Algorithms for Dominators and Related Problems", PhD
// thesis, Princeton 2005, chapter 2; after Lengauer and Tarjan, "A Fast Algorithm for Finding
// Dominators in a Flowgraph", TOPLAS 1 (1979). The walk up the tree for the nearest common ancestor
// takes jumps (Myers, "An Applicative Random-Access Stack", IPL 17 (1983)), so that all of it is
// O(m log n) for any graph. Nothing recurses.
//
// Blocks are numbered by their places in a depth-first order: a dominator comes before what it
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
// given back as soon as it is not needed.
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
