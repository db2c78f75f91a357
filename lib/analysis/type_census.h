// How many blocks there are of each type, how much memory they take, and how much only they keep.
//
// Each block has one row: of its type, or, where no type is known, of what holds it
// (block_contexts.h), so that a row says what to look for in the program:
//
//   Session                             1,204,118   462 MiB   480 MiB retained
//   24 to 120 bytes, held by Session+0x18   804,001    38 MiB
//
// What a row retains is what single blocks of it keep alive (dominators.h), themselves included;
// what is below several of them one under the other counts once. What two blocks hold together
// counts for neither.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/block_contexts.h"
#include "analysis/reference_streams.h"
#include "analysis/size_classes.h"
#include "analysis/snapshot_streams.h"
#include "references/block_type.h"

namespace heapsnap {

struct TypeRow {
  TypeNumber type = 0;  // 0: unknown; then they have in common:
  BlockContext context = {};
  uint64_t least_size = 0;  // usable bytes of a block
  uint64_t most_size = 0;
  Tally own = {};
  Tally retained = {};
};

struct TypeCensus {
  // Both by bytes, largest first.
  std::vector<TypeRow> types;
  std::vector<TypeRow> unknown;
  Tally in_use;  // all blocks but malloc's own
  Tally typed;   // of these, those whose type is known
  // Of those by how it is known, most bytes first; what nothing is known by is left out.
  struct Share {
    TypeSource source = TypeSource::kUnknown;
    Tally known = {};
  };
  std::vector<Share> by_source;
};

// At most 40 bytes a block where each has one reference and a half, besides a table by type. Throws
// Error{kBadInput} when blocks and references do not fit together.
TypeCensus take_type_census(const SnapshotStreams& streams, const ReferenceStreams& references);

}  // namespace heapsnap
