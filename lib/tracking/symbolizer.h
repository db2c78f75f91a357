// Finds the names of the return addresses of call stacks in the files of the modules and their
// separate debug files. This happens outside of the target, long after it was resumed.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/mapped_file.h"
#include "elf/debug_file_search.h"
#include "tracking/call_stacks.h"
#include "tracking/source_frames.h"
#include "tracking/tracker_record.h"

namespace heapsnap {

// The file of a module; nothing when it cannot be opened. It need not be the right one: a file with
// another build-id is not used.
using OpenModule = std::function<std::optional<MappedFile>(const TrackedModule& module)>;

// The names of all frames of `stacks`. A module that cannot be read leaves its frames without
// names.
//
// A stack that the tracker marked as truncated, for lack of unwind information, is complete when
// its outermost frame is code that nothing calls (ModuleSymbols::is_outermost); its end is
// corrected.
SourceFrames symbolize(CallStacks& stacks, const std::vector<TrackedModule>& modules,
                       const DebugFileSearch& debug_files, const OpenModule& open_module);

}  // namespace heapsnap
