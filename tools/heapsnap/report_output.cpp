#include "tools/heapsnap/report_output.h"

#include <unistd.h>

#include <optional>

#include "analysis/advice.h"
#include "analysis/heap_summary.h"
#include "analysis/mapping_groups.h"
#include "analysis/next_step.h"
#include "analysis/old_blocks.h"
#include "analysis/owner_sums.h"
#include "analysis/reference_streams.h"
#include "analysis/rss_account.h"
#include "analysis/stack_census.h"
#include "analysis/stack_groups.h"
#include "base/error.h"
#include "platform/linux/proc/proc_fs.h"
#include "report/json_report.h"
#include "tools/heapsnap/stack_names.h"
#include "tools/heapsnap/terminal.h"

namespace heapsnap {

void add_report_options(OptionParser& parser, ReportStyle& style, const char* json_help) {
  parser.flag("json,j", style.json, json_help);
  parser.text("color", style.color, "WHEN", "auto (a terminal, without NO_COLOR), always or never");
  parser.number("width", style.width, "COLUMNS",
                "maximum line width (default: COLUMNS, else the terminal's width, else 80)");
}

TextStyle text_style(const ReportStyle& style) {
  return {use_color(parse_color_choice(style.color), STDOUT_FILENO),
          output_width(STDOUT_FILENO, style.width)};
}

namespace {

// Whether the very process that a snapshot is of still runs, on this machine.
bool still_runs(const Process& process) {
  if (process.boot_id.empty()) return false;
  try {
    const Process now = ProcFs().describe(process.pid);
    return now.boot_id == process.boot_id && now.start_time_ticks == process.start_time_ticks;
  } catch (const Error&) {
    return false;  // gone, or none of our business
  }
}

}  // namespace

void print_snapshot_report(const SnapshotReader& snapshot, const std::string& path,
                           ReportDepth depth, const ReportStyle& style,
                           const PassedFrames& passed) {
  constexpr size_t kTopStacks = 8;
  const SnapshotMetadata& metadata = snapshot.metadata();
  const HeapSummary summary = summarize(snapshot);
  const RssAccount account = account_rss(metadata, summary);
  const std::vector<Advice> advice = advise(metadata, summary, account);
  ReportInput input{metadata, summary, account, advice, path, snapshot.file_size()};
  input.rest_groups = group_rests(metadata, summary, account);
  input.saved_together = saved_together(advice, metadata, summary, account);
  NextStepFacts facts{metadata, account, advice, input.rest_groups.other_memory};
  facts.process_runs =
      metadata.freeze.method != FreezeMethod::kCore && still_runs(metadata.process);
  facts.is_whole_report = depth == ReportDepth::kWhole;
  RecordedStacks recorded;
  StackCensus census;
  std::optional<StackReportInput> stacks;
  if (metadata.tracker) {
    const SnapshotStreams streams = streams_of(snapshot);
    recorded = snapshot.read_call_stacks();
    if (facts.is_whole_report) {
      add_missing_names(metadata, recorded, stack_debug_files({}, false), {});
    }
    census = take_stack_census(streams, recorded.stacks);
    stacks.emplace(
        StackReportInput{metadata,
                         recorded,
                         census,
                         StackOrder::kLiveBytes,
                         ranked_stacks(census, recorded.stacks, StackOrder::kLiveBytes, kTopStacks),
                         {},
                         path,
                         passed,
                         {}});
    pass_over_unnamed(census, recorded, *metadata.tracker, stacks->passed);
    input.stacks = &*stacks;
    stacks->old_blocks = attribute_old_blocks(streams, recorded, stacks->passed, kMostOldSizes);
    facts.census = &census;
    facts.stacks = &recorded.stacks;
  }
  input.next = next_step(facts);
  std::optional<OwnerSums> owners;
  if (snapshot.has_references()) {
    owners.emplace(sum_owners(streams_of(snapshot), references_of(snapshot)));
    input.owners = &*owners;
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
