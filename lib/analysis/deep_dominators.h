// Dominators of any graph: Semi-NCA.
//
// Loukas Georgiadis, "Linear-Time Algorithms for Dominators and Related Problems", PhD thesis,
// Princeton 2005, chapter 2; after Lengauer and Tarjan, "A Fast Algorithm for Finding Dominators in
// a Flowgraph", TOPLAS 1 (1979). The walk up the tree for the nearest common ancestor takes jumps
// (Myers, "An Applicative Random-Access Stack", IPL 17 (1983)), so that all of it is O(m log n) for
// any graph. Nothing recurses.
#pragma once

#include "analysis/dominators.h"

namespace heapsnap {

// In the order of a search depth first. At most 40 bytes a block where each has one reference and a
// half, the graph included, which is given back as soon as it is not needed. `root` is one of the
// blocks.
DominatorTree deep_dominator_tree(ReferenceGraph graph, BlockNumber root);

}  // namespace heapsnap
