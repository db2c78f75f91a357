#include "tools/heapsnap/explained_snapshot.h"

#include "base/error.h"
#include "report/reference_labels.h"
#include "report/shell_word.h"
#include "tools/heapsnap/stack_names.h"

namespace heapsnap {

namespace {

// Why a snapshot says nothing about what keeps blocks alive, and how to take one that does.
[[noreturn]] void fail_without_references(const SnapshotMetadata& metadata,
                                          const std::string& what) {
  const std::string why = metadata.references && !metadata.references->why_not.empty()
                              ? metadata.references->why_not
                              : "it was taken without them";
  const bool is_core = metadata.freeze.method == FreezeMethod::kCore;
  throw Error(ErrorKind::kUnsupported, what + " has no references between blocks", why,
              (is_core ? "take it again from the core: " : "while the process runs: ") +
                  with_references_command(metadata));
}

// Without a heap that heapsnap knows, nothing leaks and nobody owns anything: as far as is known.
void require_blocks(const SnapshotMetadata& metadata, const AnySnapshot& snapshot,
                    const std::string& what) {
  const HeapModel& heap = metadata.heap;
  if (metadata.references->blocks != 0) return;
  if (!heap.instances.empty() && !heap.foreign_answers_malloc) return;
  const bool is_core = metadata.freeze.method == FreezeMethod::kCore;
  std::string see = "heapsnap report " + shell_word(snapshot.path(), "SNAPSHOT");
  if (snapshot.path().empty()) {
    see = is_core ? "heapsnap core " + shell_word(snapshot.core(), "CORE")
                  : "heapsnap attach " + pid_word(metadata.process);
  }
  throw Error(ErrorKind::kUnsupported, what + " has no blocks of glibc's malloc",
              heap.foreign_allocator.empty()
                  ? "no glibc malloc was found in it"
                  : "its malloc is provided by " + heap.foreign_allocator,
              "to see its memory by mapping: " + see);
}

}  // namespace

void require_references(const SnapshotReader& snapshot, const std::string& what) {
  if (!snapshot.has_references()) fail_without_references(snapshot.metadata(), what);
}

ExplainedSnapshot::ExplainedSnapshot(const std::string& command, const SnapshotSource& source)
    : snapshot_(command, source, WantedPasses::kReferences) {
  require_references(reader(), source.what);
  require_blocks(metadata(), snapshot_, source.what);
  references_ = references_of(reader());
  if (metadata().tracker) {
    recorded_ = reader().read_call_stacks();
    add_missing_names(metadata(), recorded_, snapshot_.debug_files(), source.sysroot);
  }
}

ReferenceReportInput ExplainedSnapshot::report_input() const {
  return {metadata(), references_, recorded_, snapshot_.path(), snapshot_.core()};
}

}  // namespace heapsnap
