// The strongly connected components of a graph: blocks that lead to each other.
//
// David J. Pearce, "A Space-Efficient Algorithm for Finding Strongly Connected Components",
// Information Processing Letters 116 (2016), without recursion: a list of 20 M blocks takes memory,
// not stack. Linear time; 24 bytes a block at most besides the graph.
#pragma once

#include "analysis/reference_graph.h"
#include "base/large_memory.h"

namespace heapsnap {

struct StrongComponents {
  BlockNumber count = 0;
  // Of each block. A reference never leads to a component with a smaller number.
  LargeArray<BlockNumber> component;
};

StrongComponents strong_components(const ReferenceGraph& graph);

}  // namespace heapsnap
