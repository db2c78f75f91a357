// Names for frames of call stacks that a snapshot has none of, from the files of this machine.
#pragma once

#include <string>

#include "elf/debug_file_search.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata.h"

namespace heapsnap {

DebugFileSearch stack_debug_files(const std::string& sysroot, bool ask_servers);

// Looks for the modules with unnamed frames below `sysroot`, and for their debug files; only those
// with the build-id that the snapshot names are used. Where the snapshot has any names, only debug
// files can add to them.
void add_missing_names(const SnapshotMetadata& metadata, RecordedStacks& recorded,
                       const DebugFileSearch& debug_files, const std::string& sysroot);

}  // namespace heapsnap
