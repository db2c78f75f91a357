// The roots that own what they lead to.
//
// What lasts longer owns: a variable of a language runtime, then a local one of its functions that
// run, of the outermost call first, and what these calls have without a variable. All of them own
// before a variable, thread-local variable or mapping (where the runtime keeps its frames and
// caches), these before a thread's control block (the object that a thread was started with is
// mostly a variable's), that before a stack frame, of the frames the outermost, words that point
// past a block's first byte after those that do not, registers, with the words below a stack
// pointer, which mostly are of calls that have returned. Words that lead to a container's nodes
// beside it (owned_nodes.h) come after all others, in the same order. A root owns only what none
// before it leads to, neither by a word of its own nor by way of blocks:
//
//   g_cache ──► table ──► page ◄── new node ◄── insert()     a thread in the middle of an insert
//
// page is g_cache's, and insert() owns the new node alone, until that is linked. In the same way
// what a language runtime keeps for itself (caches, tables of all strings, leftovers of its
// collector) does not own what its globals and functions lead to.
//
// Words of variables without names are told apart (nameless_variables.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/block_facts.h"
#include "analysis/block_set.h"
#include "analysis/owning_references.h"
#include "analysis/reference_graph.h"
#include "analysis/reference_streams.h"
#include "analysis/snapshot_streams.h"
#include "target/process.h"

namespace heapsnap {

struct PlacedRoot {
  uint32_t place = 0;  // index into OwningRoots::places
  BlockNumber target = kNoBlock;
  auto operator<=>(const PlacedRoot&) const = default;
};

struct OwningRoots {
  std::vector<RootPlace> places;  // those of the snapshot, then the variables told apart
  // By place: in how many threads there are places that are one with it, which is the first of
  // them that owns something, and so has the roots of all. Thread-local variables of one name, or
  // without a name at one offset of a module, frames of one function and its local variables, at
  // whatever line, are one in all threads of one family (thread_family.h).
  std::vector<uint32_t> threads;
  std::vector<uint32_t> first;    // by place: that first one
  std::vector<PlacedRoot> roots;  // ascending, each once
  BlockSet reached;               // by any root
};

// The roots of a snapshot, by place, offset and target. Throws Error{kBadInput} for one in a place
// or to a block that is not there.
std::vector<Root> checked_roots(const ReferenceStreams& references, BlockNumber blocks);

// Of each root, whether its word may be left over: below the stack pointer of its thread most are
// of calls that have returned, and of some calls of language runtimes it is not known where they
// end.
std::vector<bool> stale_roots(const std::vector<Root>& roots, const std::vector<RootPlace>& places,
                              const std::vector<Thread>& threads);

struct OwnedGraph {
  ReferenceGraph graph;  // of the references by which blocks own each other
  OwningRoots owning;
  std::vector<uint32_t> places;  // of each of `roots` below: index into OwningRoots::places
};

// `roots`: checked_roots(). `sizes`: of all blocks. `word`: bytes of one. `lost`: blocks that count
// as if a variable led to them. References of the graph to what a root before owns lead to their
// own block. Throws Error{kBadInput} when blocks and references do not fit together.
OwnedGraph owned_graph(std::vector<Root> roots, const ReferenceStreams& references,
                       const std::vector<Thread>& threads, const BlockSizes& sizes, unsigned word,
                       std::span<const BlockNumber> lost = {});

struct OwnedBlocks {
  ReferenceGraph graph;  // of the references by which blocks own each other
  OwningRoots owning;
  std::vector<uint32_t> places;  // of each of checked_roots(): index into OwningRoots::places
  BlockSet garbage;              // of language runtimes (garbage_of())
};

// All of the above for a snapshot; `sizes`: of all its blocks. Throws Error{kBadInput} when blocks
// and references do not fit together.
OwnedBlocks owned_blocks(const SnapshotStreams& streams, const ReferenceStreams& references,
                         const BlockSizes& sizes);

// Appends the places as blocks, each with what its roots lead to, and at last what leads to all of
// them: gives its number.
BlockNumber append_places(ReferenceGraph& graph, const std::vector<PlacedRoot>& roots,
                          size_t places);

}  // namespace heapsnap
