#include "tools/heapsnap/tracked_stacks.h"

#include "base/error.h"
#include "report/shell_word.h"
#include "report/tracked_start.h"
#include "tools/heapsnap/stack_names.h"

namespace heapsnap {

namespace {

// How a process comes to be tracked: one that runs, or may still run, by inject.
std::string tracking_remedy(const SnapshotMetadata& metadata, bool runs) {
  if (metadata.freeze.method == FreezeMethod::kCore) {
    return tracked_start_text(metadata.process);
  }
  const std::string inject = "heapsnap inject " + pid_word(metadata.process);
  if (runs) return "load the tracker: " + inject;
  return "while the process runs, load the tracker (" + inject + "), then take a snapshot again";
}

}  // namespace

void require_tracked(const SnapshotMetadata& metadata, const StackSource& source) {
  const HeapModel& heap = metadata.heap;
  if (!metadata.tracker && heap.foreign_answers_malloc) {
    throw Error(ErrorKind::kUnsupported, source.what,
                "its malloc is provided by " + heap.foreign_allocator +
                    ", and call stacks are recorded for glibc's only",
                "start it without that allocator: heapsnap run -- COMMAND");
  }
  if (!metadata.tracker) {
    throw Error(ErrorKind::kUnsupported,
                source.is_process ? "process " + std::to_string(metadata.process.pid) : source.what,
                source.is_process ? "it is not tracked" : "the process was not tracked",
                tracking_remedy(metadata, source.is_process));
  }
}

RecordedStacks read_tracked_stacks(const SnapshotReader& snapshot, const StackSource& source,
                                   const DebugFileSearch& debug_files, const std::string& sysroot) {
  require_tracked(snapshot.metadata(), source);
  RecordedStacks recorded = snapshot.read_call_stacks();
  add_missing_names(snapshot.metadata(), recorded, debug_files, sysroot);
  return recorded;
}

}  // namespace heapsnap
