// The facts that listings of call stacks print.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/old_blocks.h"
#include "analysis/passed_frames.h"
#include "analysis/stack_census.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata.h"

namespace heapsnap {

struct StackReportInput {
  const SnapshotMetadata& metadata;  // has a tracker
  const RecordedStacks& recorded;
  const StackCensus& census;
  StackOrder order = StackOrder::kLiveBytes;
  std::vector<uint32_t> ranked;               // the stacks to list
  std::vector<std::vector<SizeCount>> sizes;  // of their blocks, as `ranked`
  std::string snapshot_path;                  // empty: not said
  PassedFrames passed{};
  std::vector<OldBlocks> old_blocks{};  // without a stack, and who probably allocated them
};

}  // namespace heapsnap
