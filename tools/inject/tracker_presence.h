// The tracker's library as it lies in a running process.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "target/target.h"
#include "tools/inject/c_library.h"
#include "tracker/table_layout.h"

namespace heapsnap {

struct TrackerPresence {
  Address load_bias;
  std::string loader_name;  // by which the loader knows it
  Address directory_word;   // heapsnap_tracker_directory
  // It was there before the C library, so its malloc is everybody's: nothing is to be patched.
  bool is_preloaded = false;
};

// Looks for the library of which `image` are the bytes. Nothing when there is none. Throws
// Error{kUnsupported} when there is another version of it, or one that is just being loaded and
// takes very long. It may not be ready yet: call its functions by call_library().
std::optional<TrackerPresence> find_tracker(Target& target, const CLibrary& libc,
                                            std::span<const std::byte> image);

// Its directory, checked; nothing before the first start.
std::optional<tracker::Directory> read_tracker_directory(Target& target,
                                                         const TrackerPresence& tracker);
std::vector<tracker::HookEntry> read_hook_table(Target& target,
                                                const tracker::Directory& directory);

}  // namespace heapsnap
