// Puts the tracker's hooks on the entry points of a process's allocator, and takes them off.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "platform/linux/inject/code_patch.h"
#include "platform/linux/inject/injected_thread.h"
#include "target/target.h"
#include "tools/inject/c_library.h"
#include "tools/inject/hook_page.h"
#include "tracker/table_layout.h"

namespace heapsnap {

struct HookChange {
  size_t entry_points = 0;  // that were changed now
  bool is_vacant = true;
  size_t unchanged = 0;  // that were as wanted already
  PatchResult patch;     // of the stop of all threads; none where nothing was to be changed
  std::vector<StolenTime> page_makers;  // threads that made the page, where it was made now
};

// Every function of the hook table that the C library exports is hooked, each address once. The
// tracker has been started. Throws Error{kUnsupported, kNoProcess, kNotPermitted}, and what `check`
// throws about a thread; after an error no entry point is changed.
HookChange hook_allocator(Target& target, const CLibrary& libc,
                          const std::vector<tracker::HookEntry>& hooks, const ThreadCheck& check);

// The old bytes back. The page of the hooks stays. `is_vacant` tells whether all threads have left
// the hooks and the page since.
HookChange unhook_allocator(Target& target, const CLibrary& libc,
                            const std::vector<tracker::HookEntry>& hooks);

}  // namespace heapsnap
