// From a snapshot to the report on standard output: what attach, core and report have in common.
#pragma once

#include <string>

#include "snapshot/snapshot_reader.h"
#include "tools/heapsnap/option_parser.h"

namespace heapsnap {

struct ReportStyle {
  bool json = false;
  std::string color = "auto";
};

// Adds -j and --color.
void add_report_options(OptionParser& parser, ReportStyle& style);

enum class ReportDepth { kFirstScreen, kWhole };

// Reads all of the snapshot and prints. `path` is for the text; may be empty.
void print_snapshot_report(const SnapshotReader& snapshot, const std::string& path,
                           ReportDepth depth, const ReportStyle& style);

}  // namespace heapsnap
