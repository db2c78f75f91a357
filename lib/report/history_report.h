// What became of a program's memory (analysis/growth_history.h), for a person, as JSON, and as a
// textfile for Prometheus' node_exporter.
#pragma once

#include <span>
#include <string>

#include "analysis/growth_history.h"
#include "report/growth_text.h"
#include "report/text_report.h"
#include "report/writer.h"

namespace heapsnap {

struct NamedHistory {
  std::string name;  // of the target; of files: the process's
  GrowthHistory history;
};

struct HistoryTextOptions {
  TextStyle style;
  size_t limit = 20;  // series in the table; 0: all
};

// What resident memory does: "456.4 MiB, +0.6 MiB in 36 seconds (0.3 %): too short a time to tell
// a trend".
std::string trend_text(const GrowthHistory& history);

void print_history(Writer& out, const NamedHistory& named, const HistoryTextOptions& options);

// One line.
void print_json_history(Writer& out, const NamedHistory& named, double tolerance_per_day);

// The metrics of all targets together.
void print_history_metrics(Writer& out, std::span<const NamedHistory> histories,
                           double tolerance_per_day);

}  // namespace heapsnap
