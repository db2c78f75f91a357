// What a leaked block leads to, step by step: what was lost with it, and by which words.
//
//   a ──+0x8──► b ──+0x0──► d        steps of a: a, b (from a), c (from a), d (from b)
//   └───+0x10─► c
//
// Breadth-first among leaked blocks, each once, so that the way to each is a shortest one; a few
// blocks and a few levels only: it is for a person.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/leak_census.h"

namespace heapsnap {

struct LeakStep {
  uint32_t block = 0;     // index into LeakCensus::blocks
  uint32_t from = 0;      // index of a step before; of the first one itself
  uint64_t held_at = 0;   // byte of that block; of the first step 0
  bool interior = false;  // that points past the block's first byte
};

struct LeakTrailBounds {
  size_t groups = 50;  // the first ones
  size_t steps = 24;   // of each
  size_t levels = 4;
};

// Of the largest source of each group. Reads the references once a level. Memory: 4 bytes a leaked
// block. `census` is of these streams. Throws Error{kBadInput} when the snapshot has become
// another.
std::vector<std::vector<LeakStep>> leak_trails(const SnapshotStreams& streams,
                                               const ReferenceStreams& references,
                                               const LeakCensus& census,
                                               const LeakTrailBounds& bounds = {});

}  // namespace heapsnap
