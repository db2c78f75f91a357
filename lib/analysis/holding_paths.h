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

// Blocks on all paths together, unless the first one alone has more.
inline constexpr size_t kMostSteps = 1 << 20;
// The shortest first, at most `limit`, no two from the same place. `sources`: reversed(graph).
// Throws Error{kBadInput} when a root leads to no block of the graph.
std::vector<HoldingPath> holding_paths(const ReferenceGraph& sources, std::span<const Root> roots,
                                       BlockNumber block, size_t limit);

}  // namespace heapsnap
