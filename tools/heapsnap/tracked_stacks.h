// The call stacks in a snapshot, for the commands that do nothing without them.
#pragma once

#include <string>

#include "elf/debug_file_search.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

// What the user named, for messages.
struct StackSource {
  std::string what;         // a snapshot's path, or a process
  bool is_process = false;  // then `snapshot` is a temporary one of it
};

// Throws Error{kUnsupported}, with how to have it tracked, when the process was not tracked.
void require_tracked(const SnapshotMetadata& metadata, const StackSource& source);

// With the names that the snapshot lacks and that are found below `sysroot`. Throws as
// require_tracked().
RecordedStacks read_tracked_stacks(const SnapshotReader& snapshot, const StackSource& source,
                                   const DebugFileSearch& debug_files, const std::string& sysroot);

}  // namespace heapsnap
