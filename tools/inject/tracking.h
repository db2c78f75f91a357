// The tracker put into a running process, and out of action again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/inject/allocator_hooks.h"
#include "tools/inject/heap_look.h"
#include "tools/inject/library_load.h"
#include "tracker/table_layout.h"

namespace heapsnap {

struct TrackingOptions {
  uint64_t sample_bytes = 0;                      // 0: every allocation
  uint32_t max_frames = tracker::kDefaultFrames;  // 0: no limit
  uint64_t memory_limit = 0;                      // 0: none
  bool interpreter_frames = false;
};

struct TrackingChange {
  bool was_loaded = false;
  bool was_recording = false;
  bool has_new_options = false;  // it was recording, with other ones
  bool is_preloaded = false;
  std::vector<LookPause> look_pauses;  // before it
  InjectionResult call;                // of the thread that loaded, started or stopped it
  HookChange hooks;
  std::optional<tracker::Directory> directory;  // afterwards
  std::string interpreter;                      // whose frames are recorded: "Python 3.11.2"
  bool is_heap_damaged = false;  // so that the tracker was not called, but lost its hooks only
  std::vector<std::string> notes;
};

// Loads `image` (libheapsnap_tracker.so) into process `pid`, or finds it there, starts it with
// `options` and hooks the allocator. Throws Error{kNoProcess, kNotPermitted, kUnsupported}.
TrackingChange start_tracking(int pid, std::span<const std::byte> image,
                              const TrackingOptions& options);

// Takes the hooks off and stops the tracker, which stays loaded. Throws as above, and
// Error{kUnsupported} when there is none.
TrackingChange stop_tracking(int pid, std::span<const std::byte> image);

}  // namespace heapsnap
