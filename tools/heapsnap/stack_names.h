// Names for call stacks that were recorded without them, from the files of this machine.
#pragma once

#include <string>

#include "elf/debug_file_search.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata.h"

namespace heapsnap {

DebugFileSearch stack_debug_files(const std::string& sysroot, bool ask_servers);

// Does nothing when the snapshot has names. Else looks for the modules below `sysroot`; only files
// with the build-id that the snapshot names are used.
void add_missing_names(const SnapshotMetadata& metadata, RecordedStacks& recorded,
                       const DebugFileSearch& debug_files, const std::string& sysroot);

}  // namespace heapsnap
