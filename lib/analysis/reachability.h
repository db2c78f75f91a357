// Which blocks are alive: those that a path of references leads to from a root.
//
// Breadth-first, because the blocks that come next are then known long before they are needed:
// where the graph is random, each look at a block would otherwise wait for memory. Where many come
// next, they are looked at in the order in which they lie in memory. Four bytes a block besides the
// graph and the sets.
#pragma once

#include <span>
#include <vector>

#include "analysis/block_set.h"
#include "analysis/reference_graph.h"
#include "references/root.h"

namespace heapsnap {

// The blocks that these point into, in their order.
std::vector<BlockNumber> targets_of(std::span<const Root> roots);

// `roots`: the blocks that roots point into, in any order, repeated or not. Throws Error{kBadInput}
// when one of them is not in the graph.
BlockSet reachable_blocks(const ReferenceGraph& graph, std::span<const BlockNumber> roots);
// The same, added to what is reached already; count() is left to the caller.
void reach_more(const ReferenceGraph& graph, std::span<const BlockNumber> roots, BlockSet& reached);

// As few blocks as lead to all that are not in `reached`, which is closed (what its blocks lead to
// is in it, too): those that no other of the rest leads to, and one of each cycle of that kind: of
// its blocks that are in one of `preferred`, the first of these sets before the next, else any.
// Throws nothing of its own.
std::vector<BlockNumber> sources_of_rest(const ReferenceGraph& graph, const BlockSet& reached,
                                         std::span<const BlockSet> preferred = {});

}  // namespace heapsnap
