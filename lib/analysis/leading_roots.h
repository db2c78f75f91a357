// Which root leads to each block, and which ones lead to what several of them share.
//
//   g_cache ──► a ──► b ◄── c ◄── g_index       a: g_cache; c: g_index; b: several,
//                                               which are g_cache and g_index
//
// A root dominates what it alone leads to, and who leads to a block needs no tree: each block is
// told at most twice who leads to it, first of one root and then of several.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/block_facts.h"
#include "analysis/owning_roots.h"
#include "base/large_memory.h"

namespace heapsnap {

struct LeadingRoots {
  // Of a block, in place of a root: no root leads to it, or more than one does.
  static constexpr uint32_t kNobody = 0;
  static constexpr uint32_t kSeveral = UINT32_MAX;

  // By block. Else 1 and the root's place.
  LargeArray<uint32_t> of_blocks;
  // The places that lead to blocks of several roots, without another such block between, those that
  // lead to the most bytes so first.
  std::vector<uint32_t> of_several;
};

// `roots`: in places of numbers below `places`. Twelve bytes a block, four in the end.
LeadingRoots find_leading_roots(const ReferenceGraph& graph, std::span<const PlacedRoot> roots,
                                size_t places, const BlockSizes& sizes);

}  // namespace heapsnap
