// How old the blocks of a process are, as several snapshots of it tell: nobody records when a block
// was allocated.
//
//   snapshot 0    A  B
//   snapshot 1    A     C  D         of the last one: A is of age 0, C of age 1 (first seen in
//   snapshot 2    A  B  C     E      snapshot 1), B and E of age 2 (first seen in snapshot 2)
//
// A block is the same one as in the snapshot before when it has the same address and chunk size:
// one that took the place of another of its size in between cannot be told from that.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/snapshot_streams.h"
#include "base/large_memory.h"

namespace heapsnap {

// Of each chunk in use of the last snapshot, in the order of its stream: the first snapshot from
// which on all have it. Takes a byte a block, and 64 MiB at most.
// `snapshots`: in the order in which they were taken, 1 to 255 of one process.
LargeArray<uint8_t> block_ages(std::span<const SnapshotStreams> snapshots);

}  // namespace heapsnap
