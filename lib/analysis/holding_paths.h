// Why a block is alive: the shortest paths of references from roots to it.
//
// Backwards from the block, breadth-first, until enough places of roots are found; of each place
// one shortest path. 8 bytes a block at most besides the graph.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/reference_graph.h"
#include "references/root.h"

namespace heapsnap {

struct HoldingPath {
  uint32_t root = 0;                // index into the roots
  std::vector<BlockNumber> blocks;  // from the one that the root points into to the block itself
  bool operator==(const HoldingPath&) const = default;
};

// How many blocks paths may have together; the first path of a search may have more.
struct StepBudget {
  size_t left = 1 << 20;
  bool is_spent = false;  // a path was left out for its length
};

// The shortest first, at most `limit`, no two from the same place; none after one that is too long
// for `budget`. `sources`: reversed(graph). Throws Error{kBadInput} when a root leads to no block
// of the graph.
std::vector<HoldingPath> holding_paths(const ReferenceGraph& sources, std::span<const Root> roots,
                                       BlockNumber block, size_t limit, StepBudget& budget);

}  // namespace heapsnap
