// Blocks numbered so that those that lead to each other have near numbers.
//
// A depth-first search takes one step after another, and where blocks lie in memory in no order
// each step waits for it, three times. So before one, blocks are put in order by walks: each
// follows references from an unnumbered block to an unnumbered block as far as it gets, and many
// walk at a time, so that one can go on while the others wait.
//
//   graph       0 ─► 7 ─► 3 ─► 5     2 ─► 3
//   near order  0    1    2    3     4
//
// A search then finds most of what it wants where it has just been.
#pragma once

#include "analysis/reference_graph.h"
#include "base/large_memory.h"

namespace heapsnap {

struct NearOrder {
  LargeArray<BlockNumber> blocks;   // by new number
  LargeArray<BlockNumber> numbers;  // by block
};

NearOrder near_order(const ReferenceGraph& graph);

// The same graph by new numbers.
ReferenceGraph renumbered(const ReferenceGraph& graph, const NearOrder& order);

}  // namespace heapsnap
