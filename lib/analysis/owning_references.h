// The references by which blocks own each other, for dominators.
//
// Not every word that holds an address is a member of its block: some are left over
// (stale_words.h), and lists lead through blocks that something else owns. One such word, and a
// whole container would belong to nobody. So references are weak when they point past the first
// byte of a block, or when their word may be stale, and a weak one counts only where no path of
// others leads to its block. What only weak ones lead to owns nothing that others lead to. Of weak
// ones, those that may be stale count only where no path without any such leads: all pointers of
// SQLite are past the first byte of their block. Where a language runtime names variables, words of
// stacks come after them: they are the interpreter's, and some are left over. In a program in C or
// C++ they are variables of functions, which own as others do.
//
// A node of a container is its container's (owned_nodes.h): what else leads to one, be it an
// iterator or a word that is left over, counts as if the word may be stale.
//
// References to a class of a language runtime are weak, too: each instance has one, as has each
// class below it, but the class is the variable's that has its name, with all that it holds.
//
// So are references from PostgreSQL's memory contexts to blocks of malloc that are of none: most of
// these are a library's, and where the program has not written since it got memory, that has in it
// what was there before (the tables of Timezones, of 90 KB, are mostly unused).
#pragma once

#include <vector>

#include "analysis/block_facts.h"
#include "analysis/owned_nodes.h"
#include "analysis/reference_graph.h"
#include "analysis/reference_streams.h"

namespace heapsnap {

// Blocks of the graph that a program has words for, outside of blocks.
struct MeantTargets {
  std::vector<BlockNumber> lasting;    // of variables and the like
  std::vector<BlockNumber> inside;     // of those, by words past their first byte
  std::vector<BlockNumber> of_frames;  // of stacks, beside variables of a language runtime
};

// The graph without the references that do not count. `sizes`: of all blocks. `word`: bytes of one.
ReferenceGraph owning_references(const ReferenceStreams& references, const BlockSizes& sizes,
                                 unsigned word, const MeantTargets& roots, const OwnedNodes& nodes);

}  // namespace heapsnap
