// A snapshot reduced to what may leave the house.
//
//   snapshot ─► names (name_cut.h)         ─► rows, each field as decided ─► another snapshot
//            ─► addresses (address_rebase.h)
//
// Only what is known is written, field by field, so what a newer writer has added, or what was
// hidden in the file, is not in the result. Sums are the same: sizes, states, references, stacks
// and types are kept, and all addresses move together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "snapshot/snapshot_reader.h"
#include "snapshot/snapshot_writer.h"

namespace heapsnap {

// What was done, for a person to read.
struct SharedSnapshot {
  uint64_t bytes = 0;  // of the file
  size_t pieces = 0;   // of the address space, that were moved
  size_t folders = 0;  // whose names were cut
  size_t files = 0;    // that are no programs or libraries, whose names were cut
  size_t thread_names = 0;
  size_t names = 0;  // of functions, variables and types, without keeps_names
  size_t notes = 0;  // sentences that were left out
  bool had_arguments = false;
  bool had_contents = false;
};

// How many chunks of how many have been read, for a person who waits.
using SharingProgress = std::function<void(uint64_t done, uint64_t total)>;

// Reads the chunks of `snapshot` twice, and once more where it has references, in memory that does
// not grow with its chunks. Throws Error{kBadInput} for damage in it, also for references of more
// or fewer blocks than it has, and as SnapshotWriter does; then there is no file.
SharedSnapshot share_snapshot(const SnapshotReader& snapshot, const SnapshotOutput& output,
                              bool keeps_names, const SharingProgress& progress = {});

}  // namespace heapsnap
