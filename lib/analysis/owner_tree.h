// What keeps the memory alive: who would let how much go.
//
// The tree of dominators below the roots, with blocks that are alike folded into one node:
//
//   g_cache                462 MiB     the variable, and all that only it leads to
//   └─ 1 × 8 MiB           462 MiB     its table
//      └─ 1,204,118 × Session  454 MiB     alike, held by the table
//         └─ 1,204,118 × 32 to 96 bytes, held at +0x18
//
// A chain of blocks of one sort, such as a list, is one node: what is held by its like belongs to
// the node of that. Of a language runtime's objects, which all hold each other by lists and dicts,
// and of the nodes of containers only where what holds both is alike, too. What several roots lead
// to is below none of them, but below a node of their group (leading_roots.h).
//
// Roots that pass, on stacks and in registers, own only what nothing that lasts leads to
// (owning_roots.h), and references that are no members only what no others lead to
// (owning_references.h).
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/reference_streams.h"
#include "analysis/size_classes.h"
#include "analysis/snapshot_streams.h"
#include "base/address.h"
#include "references/block_type.h"
#include "references/root.h"

namespace heapsnap {

enum class OwnerGrouping : uint8_t { kRoot, kType, kStack };

struct OwnerNode {
  enum class Kind : uint8_t {
    kAll = 0,      // the whole tree, always node 0
    kPlace = 1,    // a root
    kSeveral = 2,  // a group of roots that share
    kBlocks = 3,
  };
  // Of `held_at`: by several words, or by a root; somewhere in an array, or in a large block.
  static constexpr uint32_t kNotDirectly = UINT32_MAX;
  static constexpr uint32_t kElement = UINT32_MAX - 1;

  Kind kind = Kind::kBlocks;
  uint32_t parent = 0;  // less than the own index; of node 0 itself
  // Of OwnerTree: kPlace: index into places; kSeveral: into groups.
  uint32_t place = 0;
  // kBlocks: what they have in common.
  TypeNumber type = 0;  // 0: not known, or by stack: several
  uint32_t stack = 0;
  uint32_t held_at = kNotDirectly;  // byte in the block of the parent
  bool has_references = false;
  uint64_t least_size = 0;
  uint64_t most_size = 0;
  BlockNumber example = kNoBlock;  // one of the blocks
  Address example_at = {};         // the same; null: there are none
  Tally own = {};                  // the blocks themselves
  Tally retained = {};             // with all below
};

struct OwnerTree {
  std::vector<RootPlace> places;  // as OwningRoots::places
  std::vector<uint32_t> threads;  // as OwningRoots::threads
  std::vector<OwnerNode> nodes;
  std::vector<std::vector<uint32_t>> children;  // of each node, by retained bytes, largest first
  std::vector<std::vector<uint32_t>> groups;    // as LeadingRoots::groups; by root only
  Tally in_use;                                 // all blocks but malloc's own
  Tally leaked;                                 // of these, what no root leads to, and no
  Tally garbage;                                // of language runtimes (garbage_of())
  // Of the largest owner, or a single one that holds half as much at least, and of single ones that
  // hold 10 % of all: the node of blocks that most of what it holds spreads to.
  struct Example {
    uint32_t owner = 0;  // both are nodes
    uint32_t blocks = 0;
  };
  static constexpr size_t kMostExamples = 3;
  std::vector<Example> examples;
};

// At most 40 bytes a block where each has one reference and a half, and as SharedBlocks says.
// Throws Error{kBadInput} when blocks and references do not fit together.
OwnerTree make_owner_tree(const SnapshotStreams& streams, const ReferenceStreams& references,
                          OwnerGrouping by = OwnerGrouping::kRoot);

}  // namespace heapsnap
