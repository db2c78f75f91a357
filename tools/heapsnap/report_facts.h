// All that a report of one snapshot says, computed once: the whole chain of analyses that
// heapsnap report, attach and view print from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/owner_sums.h"
#include "analysis/passed_frames.h"
#include "analysis/stack_census.h"
#include "report/report_input.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

// Whether the very process that a snapshot is of still runs on this machine, or the snapshot, such
// as one that was shared, does not tell.
bool may_still_run(const Process& process);

enum class ReportDepth { kFirstScreen, kWhole };

class ReportFacts {
 public:
  // Reads all of the snapshot, which must outlive the facts. `path` is for the text; may be empty.
  // Call stacks are not charged to the functions in `passed`. `owners`: of this snapshot, where
  // they are known already; else they are added up, if it has references. Throws Error{kBadInput}.
  ReportFacts(const SnapshotReader& snapshot, const std::string& path, ReportDepth depth,
              const PassedFrames& passed, std::optional<OwnerSums> owners = std::nullopt);
  ReportFacts(const ReportFacts&) = delete;
  ReportFacts& operator=(const ReportFacts&) = delete;

  const ReportInput& input() const { return input_; }
  // Empty when the process was not tracked.
  const RecordedStacks& recorded() const { return recorded_; }
  const StackCensus& census() const { return census_; }

 private:
  void add_stacks(const SnapshotReader& snapshot, const std::string& path,
                  const PassedFrames& passed, bool all_names);

  HeapSummary summary_;
  RssAccount account_;
  std::vector<Advice> advice_;
  RecordedStacks recorded_;
  StackCensus census_;
  std::optional<StackReportInput> stacks_;
  std::optional<OwnerSums> owners_;
  ReportInput input_;
};

}  // namespace heapsnap
