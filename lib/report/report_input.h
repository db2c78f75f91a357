// The facts that the text and the JSON report print. Reports never compute: what is not here (or a
// mere sum of what is) belongs in lib/analysis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/advice.h"
#include "analysis/heap_summary.h"
#include "analysis/mapping_groups.h"
#include "analysis/next_step.h"
#include "analysis/owner_sums.h"
#include "analysis/rss_account.h"
#include "report/stack_report_input.h"
#include "snapshot/metadata.h"

namespace heapsnap {

struct ReportInput {
  const SnapshotMetadata& metadata;
  const HeapSummary& summary;
  const RssAccount& account;
  const std::vector<Advice>& advice;
  std::string snapshot_path;    // empty: not said
  uint64_t snapshot_bytes = 0;  // size of the file
  // Of a tracked process: its call stacks, the dearest first.
  const StackReportInput* stacks = nullptr;
  RestGroups rest_groups = {};
  NextStep next = {};
  SavedTogether saved_together = {};  // by `advice`
  // Null: the snapshot has no references.
  const OwnerSums* owners = nullptr;
};

}  // namespace heapsnap
