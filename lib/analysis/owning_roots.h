// The roots that own what they lead to.
//
// Variables, thread-local variables and mappings last; stacks and registers pass. A block belongs
// to those that last longest: a root on a stack counts only where no longer-lived one leads to its
// block.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/block_set.h"
#include "analysis/reference_graph.h"
#include "analysis/reference_streams.h"

namespace heapsnap {

struct PlacedRoot {
  uint32_t place = 0;  // index into the places
  BlockNumber target = kNoBlock;
  auto operator<=>(const PlacedRoot&) const = default;
};

// By place and target, each once. `reached` becomes the blocks that any root leads to, counted.
// Throws Error{kBadInput} for a place or a block that is not there.
std::vector<PlacedRoot> owning_roots(const ReferenceStreams& references,
                                     const ReferenceGraph& graph, BlockSet& reached);

// Appends the places as blocks, each with what its roots lead to, and at last what leads to all of
// them: gives its number.
BlockNumber append_places(ReferenceGraph& graph, const std::vector<PlacedRoot>& roots,
                          size_t places);

}  // namespace heapsnap
