// Several snapshots: those of one process in their order, what grew between them, and how memory
// went on.
#pragma once

#include <string>
#include <vector>

#include "analysis/growth_trend.h"
#include "analysis/passed_frames.h"
#include "analysis/snapshot_diff.h"
#include "report/history_report.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

// Opened: several are of one process that was not started anew in between, in the order in which
// they were taken, so that addresses in one say something of those in the next; a single one may be
// any. `command`: "render". Throws Error{kUnsupported} or Error{kUsage}, with what to do, where
// they are not that, and as open_snapshot() does.
std::vector<SnapshotReader> open_series(const std::vector<std::string>& paths,
                                        const std::string& command);

// Every kind of rows that a diff can have.
std::vector<DiffBy> all_sums();

// Of two snapshots or more, in this order. Among several sums, those of objects of language
// runtimes are left out where no snapshot has any. What is wrong with one names its file.
// `sysroot`: as of add_missing_names(). Throws Error{kBadInput}.
SnapshotDiff read_diff(const std::vector<std::string>& paths, std::vector<DiffBy> wanted,
                       const PassedFrames& passed, const std::string& sysroot);

struct HistoryFiles {
  std::string name;  // empty: the process's own
  std::vector<std::string> paths;
  std::vector<std::string>
      passed_over;  // what is called a snapshot and is none to be read, and why
};

// One for each program that the snapshots are of (analysis/program_groups.h), in the order of their
// first files. The last one also has what cannot be read, of which no program is known.
std::vector<HistoryFiles> split_by_program(const HistoryFiles& files);

// Those that cannot be read are in the history as such. Throws Error{kBadInput} when none can.
NamedHistory read_history(const HistoryFiles& files, const TrendBounds& bounds);

}  // namespace heapsnap
