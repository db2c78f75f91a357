// Why one block is there: what it is, the shortest ways from roots to it, one of each variable,
// that from the root which owns it (owning_roots.h) among them, and what would go with it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/reference_streams.h"
#include "analysis/size_classes.h"
#include "analysis/snapshot_streams.h"
#include "references/block_type.h"
#include "references/root.h"

namespace heapsnap {

struct BlockFacts {
  BlockNumber number = kNoBlock;
  Address address;
  uint64_t bytes = 0;  // usable
  uint32_t stack = 0;  // of a tracked process; 0: none that is known
  TypeNumber type = 0;
  bool is_mallocs_own = false;   // SnapshotBlock's
  bool is_thread_cache = false;  // and of that sort
};

struct HeldStep {
  BlockFacts block;
  uint64_t held_at = 0;   // byte in the block before, or, of the first step, in the root's place
  bool interior = false;  // that points past the block's first byte
  // The word may be left over, or only look at the block: stale_words.h, a node beside its
  // container (owned_nodes.h), the middle of a memory context's block; of the first step also what
  // lies below a stack pointer.
  bool may_be_stale = false;
};

struct HeldPath {
  uint32_t place = 0;     // index into the places
  bool is_owner = false;  // what it begins in owns the block alone, as owners counts
  std::vector<HeldStep> steps;
};

struct HeldBlock {
  BlockFacts block;
  uint64_t offset = 0;  // of the address that was asked for
  // Those without a step that may be stale first, the shortest of each sort first; none: it is
  // leaked, or garbage.
  std::vector<HeldPath> paths;
  bool lacks_paths = false;       // others have too many steps, a million with these
  bool is_garbage = false;        // of a language runtime (garbage_of())
  std::vector<HeldStep> sources;  // blocks that point to it, a few, each with where it does
  uint64_t source_count = 0;
  Tally retained;  // what is reachable only through it, itself included; of a leaked one: what it
                   // leads to among leaked blocks
};

// None when no block in use holds `address`. At most `limit` paths, 1 or more, and as many sources.
std::optional<HeldBlock> explain_block(const SnapshotStreams& streams,
                                       const ReferenceStreams& references, Address address,
                                       size_t limit);

}  // namespace heapsnap
