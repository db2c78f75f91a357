// The leaks of a snapshot: which blocks no root reaches, of which kind, and what belongs together.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/leak_classes.h"
#include "analysis/reference_streams.h"
#include "analysis/size_classes.h"
#include "analysis/snapshot_streams.h"
#include "references/block_type.h"

namespace heapsnap {

struct LeakedBlock {
  Address address;
  uint64_t bytes = 0;  // usable
  uint32_t stack = 0;  // of a tracked process; 0: none that is known
  TypeNumber type = 0;
  LeakKind kind = LeakKind::kDirect;
  uint32_t source = LeakClasses::kSeveral;  // index into LeakCensus::sources
};

// Direct blocks and cycles of the same stack; without one, of the same type; without that, of the
// same size. Of a cycle these are of the block that says most of what it is: one of a class of the
// program's, the largest.
struct LeakGroup {
  static constexpr size_t kMostPartners = 3;

  LeakKind kind = LeakKind::kDirect;
  uint32_t stack = 0;
  TypeNumber type = 0;
  uint64_t least_size = 0;  // of direct blocks, of that block of each cycle
  uint64_t most_size = 0;
  uint64_t count = 0;  // of direct blocks; of cycles
  uint64_t retained_bytes = 0;
  uint64_t retained_blocks = 0;
  uint32_t largest = 0;  // index into LeakCensus::sources: retains the most
  // Other classes of the program's in the largest cycle, by the addresses of their blocks.
  std::vector<TypeNumber> partners;
};

struct LeakCensus {
  std::vector<LeakedBlock> blocks;  // ascending by number
  // Their `block` is an index into `blocks`, of a cycle the block that names it.
  std::vector<LeakOrigin> sources;
  std::vector<LeakGroup> groups;  // by retained bytes, largest first
  std::array<Tally, kLeakKindCount> kinds;
  Tally all;
  Tally held_by_several;  // indirect, and held by more than one of the others
  Tally suppressed;
  Tally garbage;  // of language runtimes (garbage_of()): not leaked
  Tally in_use;   // all blocks, leaked or not, but for malloc's own
};

// The blocks that roots point into, and malloc's own, which nobody can leak, in no order: what no
// path leads to from these is leaked. Adds all others to `in_use`. Throws Error{kBadInput} when the
// snapshot does not have as many blocks as there are references of.
std::vector<BlockNumber> held_from_outside(const SnapshotStreams& streams,
                                           const ReferenceStreams& references, BlockNumber blocks,
                                           Tally& in_use);

// Whether leaks of this stack and type are suppressed, with all that only they lead to.
using IsSuppressed = std::function<bool(uint32_t stack, TypeNumber type)>;

// Memory: the reference graph and four bytes a block, then about 80 bytes a leaked block. Throws
// Error{kBadInput} when blocks and references do not fit together.
LeakCensus take_leak_census(const SnapshotStreams& streams, const ReferenceStreams& references,
                            const IsSuppressed& is_suppressed = {});

}  // namespace heapsnap
