// One snapshot for `heapsnap collect`, taken in a process of its own within the target's budgets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "platform/linux/self/bounded_work.h"
#include "tools/capture/reference_capture.h"

namespace heapsnap {

struct CaptureOrder {
  int pid = 0;
  uint64_t start_time_ticks = 0;  // of the process that is meant
  std::string path;               // of the snapshot
  int folder = -1;                // descriptor of the folder that it is put into
  std::string place;              // the same below the store
  CaptureChoice references = CaptureChoice::kAuto;
  WorkBounds bounds;
  std::function<void()> in_child;  // what the child has to do first
};

struct CaptureOutcome {
  WorkEnd end = WorkEnd::kDone;
  int signal = 0;
  int late_signal = 0;  // as in WorkResult
  // Of an end that is kDone.
  int exit_code = 0;
  std::string what;  // of an error, as `why` and `remedy`
  std::string why;
  std::string remedy;
  uint64_t rss = 0;
  uint64_t file_size = 0;
  uint64_t pause_ns = 0;
  std::string allocator;  // another one than glibc's, of which no chunks are in the snapshot
  bool has_heap = true;
};

// Does what `heapsnap attach` does. Whatever goes wrong is in the outcome, but that there can be no
// process for it: throws Error{kUnsupported}.
CaptureOutcome capture_within(const CaptureOrder& order);

}  // namespace heapsnap
