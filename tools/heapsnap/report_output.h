// From a snapshot to the report on standard output: what attach, core and report have in common.
#pragma once

#include <string>

#include "analysis/passed_frames.h"
#include "report/text_report.h"
#include "snapshot/snapshot_reader.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/report_facts.h"

namespace heapsnap {

struct ReportStyle {
  bool json = false;
  std::string color = "auto";
  uint64_t width = 0;  // columns; 0: as the terminal
};

// Adds -j, --color and --width. `json_help` says what -j prints.
void add_report_options(OptionParser& parser, ReportStyle& style,
                        const char* json_help = "print the report as one JSON object");
// How text that goes to standard output looks. Throws Error{kUsage} for what cannot be.
TextStyle text_style(const ReportStyle& style);

// Reads all of the snapshot and prints. `path` is for the text; may be empty. Call stacks are not
// charged to the functions in `passed`.
void print_snapshot_report(const SnapshotReader& snapshot, const std::string& path,
                           ReportDepth depth, const ReportStyle& style,
                           const PassedFrames& passed = {});

}  // namespace heapsnap
