// What `heapsnap diff` cannot compare, and how to take snapshots of which it can.
#pragma once

#include <cstddef>

#include "report/diff_report.h"
#include "report/terminal_text.h"

namespace heapsnap {

// The last snapshot that is of a process, not of a core; null: none.
const DiffSnapshot* last_live(const SnapshotDiff& diff);

// "Not compared": which sums are not there, of which snapshots, why, and how to have them. Nothing
// where there are all.
void print_diff_lacks(Writer& out, const DiffReportInput& input, const Ink& ink, size_t width);

}  // namespace heapsnap
