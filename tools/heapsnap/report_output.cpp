#include "tools/heapsnap/report_output.h"

#include <unistd.h>

#include <optional>

#include "analysis/advice.h"
#include "analysis/heap_summary.h"
#include "analysis/rss_account.h"
#include "analysis/stack_census.h"
#include "report/json_report.h"
#include "tools/heapsnap/terminal.h"

namespace heapsnap {

void add_report_options(OptionParser& parser, ReportStyle& style) {
  parser.flag("json,j", style.json, "print the report as one JSON object");
  parser.text("color", style.color, "WHEN", "auto (a terminal, without NO_COLOR), always or never");
  parser.number("width", style.width, "COLUMNS",
                "how wide lines may be (default: COLUMNS, else the terminal's width, else 80)");
}

TextStyle text_style(const ReportStyle& style) {
  return {use_color(parse_color_choice(style.color), STDOUT_FILENO),
          output_width(STDOUT_FILENO, style.width)};
}

void print_snapshot_report(const SnapshotReader& snapshot, const std::string& path,
                           ReportDepth depth, const ReportStyle& style) {
  const SnapshotMetadata& metadata = snapshot.metadata();
  const HeapSummary summary = summarize(snapshot);
  const RssAccount account = account_rss(metadata, summary);
  const std::vector<Advice> advice = advise(metadata, summary, account);
  ReportInput input{metadata, summary, account, advice, path, snapshot.file_size()};
  RecordedStacks recorded;
  StackCensus census;
  std::optional<StackReportInput> stacks;
  if (metadata.tracker) {
    constexpr size_t kTopStacks = 8;
    recorded = snapshot.read_call_stacks();
    census = take_stack_census(streams_of(snapshot), recorded.stacks);
    stacks.emplace(
        StackReportInput{metadata,
                         recorded,
                         census,
                         StackOrder::kLiveBytes,
                         ranked_stacks(census, recorded.stacks, StackOrder::kLiveBytes, kTopStacks),
                         {},
                         path});
    input.stacks = &*stacks;
  }

  Writer out(STDOUT_FILENO, "standard output");
  if (style.json) {
    print_json_report(out, input);
  } else {
    const TextStyle text = text_style(style);
    if (depth == ReportDepth::kWhole) {
      print_report(out, input, text);
    } else {
      print_first_screen(out, input, text);
    }
  }
  out.flush();
}

}  // namespace heapsnap
