// The variables of files without symbols, of which all words of a section are in one place.
//
//   .bss   | p |   | q r | s |   | t t t t t |        p, q to s, and the t become a place each
//            │       │ │   │       │ │ │ │ │
//            ▼       ▼ └►  ▼       ▼ ▼ ▼ ▼ ▼
//            a       b ──► c       blocks of one size
//
// Words near each other are one variable when what they lead to hangs together, as in the header of
// a map, and so are neighbours that lead to blocks of one size, as in an array. What they are a
// place of reaches from the first of these words to the last, which may be two variables in truth.
#pragma once

#include <vector>

#include "analysis/block_facts.h"
#include "analysis/reference_graph.h"
#include "references/root.h"

namespace heapsnap {

// Moves the roots of places without a name, which are sorted by place and offset, to places of
// their own behind the others. `are_beside`: OwnedNodes::are_beside(). `sizes`: of all blocks.
// `word`: bytes of one.
void tell_apart(std::vector<Root>& roots, std::vector<RootPlace>& places,
                const std::vector<bool>& are_beside, const ReferenceGraph& graph,
                const BlockSizes& sizes, unsigned word);

}  // namespace heapsnap
