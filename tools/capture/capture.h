// From a target to a snapshot file: the main path of heapsnap, as a list of passes.
//
//   inspect -> freeze -> find malloc -> walk -> residency -> release -> names of call stacks ->
//   metadata -> close the file
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "elf/debug_file_search.h"
#include "platform/linux/freeze/freeze_options.h"
#include "snapshot/metadata.h"
#include "snapshot/snapshot_writer.h"
#include "target/target.h"
#include "tools/capture/capture_choice.h"
#include "tools/capture/reference_capture.h"

namespace heapsnap {

struct CaptureOptions {
  SnapshotOutput output;
  bool keep_contents = false;   // the bytes of all private writable memory, too
  bool keep_arguments = false;  // of the command line; else the program's path replaces it
  ReferenceOptions references;
  // Walk the heaps of language runtimes: kAuto while the process runs on, kYes also if it does not.
  CaptureChoice runtimes = CaptureChoice::kAuto;
  DebugFileSearch debug_files;
  bool name_stacks = true;      // of a tracked process: look for the symbols of its call stacks
  std::string sysroot;          // of a core: where files are that it does not say were mapped
  std::string collected_place;  // where `heapsnap collect` puts it below its store; else empty
  // Bytes of heap walked and to be walked; may be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

struct CaptureResult {
  SnapshotMetadata metadata;
  uint64_t file_size = 0;
  uint64_t chunks = 0;
  uint64_t capture_ns = 0;  // from the begin of the freeze to the closed file
};

// Freezes `pid`, writes the snapshot and releases it. On any Error the target runs and no file is
// left behind.
CaptureResult capture_process(int pid, const FreezeOptions& freeze, const CaptureOptions& options);

// The same when no other heapsnap works in the process: waits for that (trace/target_lock.h),
// unless it is read while it runs.
CaptureResult capture_alone(int pid, const FreezeOptions& freeze, const CaptureOptions& options);

// The same for an open core (core/core_target.h). `source` says what was read, `notes` what was
// found amiss on opening it.
CaptureResult capture_core(Target& core, const std::string& source,
                           const std::vector<std::string>& notes, const CaptureOptions& options);

}  // namespace heapsnap
