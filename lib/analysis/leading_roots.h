// Which root leads to each block, and which ones lead to what several of them share.
//
//   g_cache ──► a ──► b ◄── c ◄── g_index       a: g_cache; c: g_index; b: several,
//                                               which are g_cache and g_index
//   g_left ──► d ◄── g_right                    d: several others
//
// A root dominates what it alone leads to, and who leads to a block needs no tree: each block is
// told at most twice who leads to it, first of one root and then of several. Roots that lead to one
// block are of one group, and so are others that share a block with any of these.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "analysis/block_facts.h"
#include "analysis/owning_roots.h"
#include "base/large_memory.h"

namespace heapsnap {

struct LeadingRoots {
  // No root leads to a block.
  static constexpr uint32_t kNobody = 0;
  // More than one does: with the number of their group.
  static constexpr uint32_t kSeveral = uint32_t{1} << 31;
  static bool is_several(uint32_t leading) { return leading >= kSeveral; }
  static uint32_t group_of(uint32_t leading) { return leading - kSeveral; }

  // By block. Else 1 and the root's place.
  LargeArray<uint32_t> of_blocks;
  // Of each group, the places that lead to blocks of several roots, without another such block
  // between; those that lead to the most bytes so first, and so the groups by the first of them.
  std::vector<std::vector<uint32_t>> groups;
};

// `roots`: in places of numbers below `places`, which is less than kSeveral. Twelve bytes a block,
// four in the end.
LeadingRoots find_leading_roots(const ReferenceGraph& graph, std::span<const PlacedRoot> roots,
                                size_t places, const BlockSizes& sizes);

// The groups alone, in less memory: eight bytes for each block of several roots that is not of the
// group with the most blocks.
class SharedBlocks {
 public:
  explicit SharedBlocks(const LeadingRoots& roots);

  // `block`: one that several roots lead to.
  uint32_t group_of(BlockNumber block) const;

 private:
  uint32_t most_ = 0;                                     // the group of all others
  std::vector<std::pair<BlockNumber, uint32_t>> others_;  // ascending
};

}  // namespace heapsnap
