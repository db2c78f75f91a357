#include "tools/heapsnap/report_facts.h"

#include "analysis/advice.h"
#include "analysis/heap_summary.h"
#include "analysis/mapping_groups.h"
#include "analysis/next_step.h"
#include "analysis/old_blocks.h"
#include "analysis/reference_streams.h"
#include "analysis/rss_account.h"
#include "analysis/stack_groups.h"
#include "base/error.h"
#include "platform/linux/proc/proc_fs.h"
#include "target/shared_process.h"
#include "tools/heapsnap/stack_names.h"

namespace heapsnap {

namespace {

// Whether the very process that a snapshot is of still runs, on this machine.
bool still_runs(const Process& process) {
  if (process.boot_id.empty()) return false;
  try {
    const Process now = ProcFs().describe(process.pid);
    return now.boot_id == process.boot_id && now.start_time_ticks == process.start_time_ticks;
  } catch (const Error&) {
    return false;  // gone, or none of our business
  }
}

}  // namespace

bool may_still_run(const Process& process) {
  return is_shared(process) || process.boot_id.empty() || still_runs(process);
}

ReportFacts::ReportFacts(const SnapshotReader& snapshot, const std::string& path, ReportDepth depth,
                         const PassedFrames& passed, std::optional<OwnerSums> owners)
    : summary_(summarize(snapshot)),
      account_(account_rss(snapshot.metadata(), summary_)),
      advice_(advise(snapshot.metadata(), summary_, account_)),
      owners_(std::move(owners)),
      input_{snapshot.metadata(), summary_, account_, advice_, path, snapshot.file_size()} {
  const SnapshotMetadata& metadata = snapshot.metadata();
  input_.rest_groups = group_rests(metadata, summary_, account_);
  input_.saved_together = saved_together(advice_, metadata, summary_, account_);
  NextStepFacts facts{metadata, account_, advice_, input_.rest_groups.other_memory};
  facts.process_runs =
      metadata.freeze.method != FreezeMethod::kCore && still_runs(metadata.process);
  facts.is_whole_report = depth == ReportDepth::kWhole;
  if (metadata.tracker) {
    add_stacks(snapshot, path, passed, facts.is_whole_report);
    facts.census = &census_;
    facts.stacks = &recorded_.stacks;
  }
  input_.next = next_step(facts);
  if (!owners_ && snapshot.has_references()) {
    owners_.emplace(sum_owners(streams_of(snapshot), references_of(snapshot)));
  }
  if (owners_) input_.owners = &*owners_;
}

void ReportFacts::add_stacks(const SnapshotReader& snapshot, const std::string& path,
                             const PassedFrames& passed, bool all_names) {
  constexpr size_t kTopStacks = 8;
  const SnapshotMetadata& metadata = snapshot.metadata();
  const SnapshotStreams streams = streams_of(snapshot);
  recorded_ = snapshot.read_call_stacks();
  if (all_names) add_missing_names(metadata, recorded_, stack_debug_files({}, false), {});
  census_ = take_stack_census(streams, recorded_.stacks);
  stacks_.emplace(
      StackReportInput{metadata,
                       recorded_,
                       census_,
                       StackOrder::kLiveBytes,
                       ranked_stacks(census_, recorded_.stacks, StackOrder::kLiveBytes, kTopStacks),
                       {},
                       path,
                       passed,
                       {}});
  pass_over_unnamed(census_, recorded_, *metadata.tracker, stacks_->passed);
  stacks_->old_blocks = attribute_old_blocks(streams, recorded_, stacks_->passed, kMostOldSizes);
  input_.stacks = &*stacks_;
}

}  // namespace heapsnap
