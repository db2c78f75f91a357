// What grew between snapshots (analysis/snapshot_diff.h), for people and for programs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analysis/growth_bound.h"
#include "analysis/snapshot_diff.h"
#include "report/text_report.h"
#include "report/writer.h"

namespace heapsnap {

struct DiffReportInput {
  const SnapshotDiff& diff;
  std::vector<std::string> paths;  // of the snapshots
  std::optional<DiffBy> by;        // the only sums that were asked for
  std::optional<GrowthBound> bound;
  // The last live snapshot's process, here; else commands for its PID are of no use.
  bool may_run = true;

  // Of what `bound` is for. Whether it is known in two snapshots.
  const DiffRow& measured() const { return diff.measured(by); }
  bool is_past_bound() const;
  // The snapshots in a command: "old.hsnap 'my new.hsnap'".
  std::string snapshot_words() const;
};

// Which processes they are of; memory in use; then the rows of each kind of sums, `limit` at most
// (0: all).
void print_diff(Writer& out, const DiffReportInput& input, size_t limit, const TextStyle& style);
// {"kind":"diff","version":1,...}: all rows that changed.
void print_json_diff(Writer& out, const DiffReportInput& input);

}  // namespace heapsnap
