// Dominators of a graph in which many paths can be followed at a time, as in most heaps.
//
// A search depth first waits for memory at each step. One breadth first knows long before which
// blocks it will come to, so that their memory can be asked for; but its tree says less. So the
// tree is put right step by step: where a reference leads to a block from outside of what the
// block's parent holds, the nearest block that holds both becomes its parent.
//
//   references      breadth first     put right, for c ─► d
//   a ─► b ─► d     a ─► b ─► d       a ─► b
//   └──► c ─► d     └──► c            ├──► c
//                                     └──► d
//
// What dominates a block in truth is above it all the time; and where no reference changes anything
// any more, nothing else is. So Cooper, Harvey and Kennedy do it ("A Simple, Fast Dominance
// Algorithm", 2001), from a search depth first. Mostly a few rounds do, in which walks up the tree
// are short. Where long chains can be entered at many places they are not: it is given up.
#pragma once

#include <optional>

#include "analysis/dominators.h"

namespace heapsnap {

// In the order of a search breadth first. None where that would take longer than dominator_tree()
// takes otherwise; `root` is one of the blocks. Takes 16 bytes a block where each has one reference
// and a half, besides the graph.
std::optional<DominatorTree> broad_dominator_tree(const ReferenceGraph& graph, BlockNumber root);

}  // namespace heapsnap
