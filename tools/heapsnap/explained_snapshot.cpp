#include "tools/heapsnap/explained_snapshot.h"

#include "base/error.h"
#include "report/reference_labels.h"
#include "tools/heapsnap/report_facts.h"
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
void require_blocks(const ReferenceReportInput& input, const std::string& what) {
  const HeapModel& heap = input.metadata.heap;
  if (input.metadata.references->blocks != 0) return;
  if (!heap.instances.empty() && !heap.foreign_answers_malloc) return;
  throw Error(ErrorKind::kUnsupported, what + " has no blocks of glibc's malloc",
              heap.foreign_allocator.empty()
                  ? "no glibc malloc was found in it"
                  : "its malloc is provided by " + heap.foreign_allocator,
              "to see its memory by mapping: " + overview_command(input));
}

}  // namespace

void require_references(const SnapshotReader& snapshot, const std::string& what) {
  if (!snapshot.has_references()) fail_without_references(snapshot.metadata(), what);
}

ExplainedSnapshot::ExplainedSnapshot(const std::string& command, const SnapshotSource& source)
    : snapshot_(command, source, WantedPasses::kReferences) {
  require_references(reader(), source.what);
  require_blocks(report_input(), source.what);
  references_ = references_of(reader());
  if (metadata().tracker) {
    recorded_ = reader().read_call_stacks();
    add_missing_names(metadata(), recorded_, snapshot_.debug_files(), source.sysroot);
  }
}

ReferenceReportInput ExplainedSnapshot::report_input() const {
  const Process& process = metadata().process;
  const bool may_run = metadata().freeze.method == FreezeMethod::kCore || may_still_run(process);
  return {metadata(), references_, recorded_, snapshot_.path(), snapshot_.core(), may_run};
}

}  // namespace heapsnap
