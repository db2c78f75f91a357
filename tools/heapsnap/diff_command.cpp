#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "analysis/growth_bound.h"
#include "analysis/snapshot_diff.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "report/diff_lacks.h"
#include "report/diff_report.h"
#include "report/terminal_text.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/pass_over_options.h"
#include "tools/heapsnap/report_facts.h"
#include "tools/heapsnap/report_output.h"
#include "tools/heapsnap/snapshot_argument.h"
#include "tools/heapsnap/snapshot_series.h"
#include "tools/heapsnap/step_line.h"

namespace heapsnap {

namespace {

constexpr const char* kDiffDescription =
    "Shows what grew between snapshots: by owner (the variable, thread or mapping that keeps the\n"
    "blocks alive), type, call stack, size and arena, what is leaked, and what resident memory is\n"
    "used for; of a process with a Python or Ruby interpreter also by class of its objects, and\n"
    "of a PostgreSQL server by name of its memory contexts. With three snapshots and more, what\n"
    "only grows comes first: it never shrank, and grew in most of the steps. Its rate is Theil\n"
    "and Sen's slope, which outliers do not move.\n"
    "\n"
    "Rows are matched by names, never by addresses, so that the snapshots may be of different\n"
    "processes, and of different builds of the program; the first line says so. Owners, types and\n"
    "leaks need references (attach --references yes), call stacks a tracked process (inject, "
    "run).\n"
    "When memory grew rather than what made it grow, and whether it will run out: heapsnap "
    "history.\n"
    "\n"
    "Exit code: 0, or 1 with --fail-on-growth if memory grew by more than that from the first\n"
    "snapshot to the last.";

constexpr size_t kMostSnapshots = 100;
constexpr uint64_t kNotGiven = UINT64_MAX;
constexpr uint64_t kRowsOfEach = 5;
constexpr uint64_t kRowsOfOne = 20;

struct DiffArguments {
  std::vector<std::string> snapshots;
  std::string by = "all";
  std::string fail_on_growth;
  std::string sysroot;
  PassOverOptions pass_over;
  uint64_t limit = kNotGiven;
  ReportStyle style;
};

// Nothing: all of them.
std::optional<DiffBy> parse_sums(const std::string& text) {
  check_choice(
      "--by", text,
      {"all", "owner", "type", "stack", "leak", "size", "arena", "rss", "class", "context"});
  for (const DiffBy by : all_sums()) {
    if (text == to_string(by)) return by;
  }
  return std::nullopt;
}

// "10%", "0.5%", "64MiB"
std::optional<GrowthBound> parse_bound(const std::string& text) {
  constexpr const char* kOption = "--fail-on-growth";
  if (text.empty()) return std::nullopt;
  GrowthBound bound{text, std::nullopt, 0};
  if (!text.ends_with('%')) {
    bound.bytes = parse_byte_size(kOption, text);
    return bound;
  }
  const char* const end = text.data() + text.size() - 1;
  double percent = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc() || rest != end || !(percent >= 0 && percent <= 1e9)) {
    throw Error(ErrorKind::kUsage, std::string(kOption) + " " + text,
                "not a percentage or a number of bytes",
                "for example: --fail-on-growth 10%, or --fail-on-growth 64MiB");
  }
  bound.share = percent / 100;
  return bound;
}

// Throws Error unless these are snapshots, and as many as can be compared.
void check_snapshots_to_compare(const std::vector<std::string>& words) {
  if (words.size() < 2) {
    throw Error(ErrorKind::kUsage, "diff",
                words.empty() ? "it compares two snapshots or more"
                              : "it compares two snapshots or more, and there is only one",
                "for example: heapsnap diff old.hsnap new.hsnap");
  }
  if (words.size() > kMostSnapshots) {
    throw Error(ErrorKind::kUsage, "diff",
                "it compares at most " + std::to_string(kMostSnapshots) + " snapshots",
                "leave some out, or see how memory grew over all of them: heapsnap history");
  }
  for (const std::string& word : words) open_snapshot(word, "diff");
}

// Growth that the first or the last snapshot does not tell would pass for none.
void require_measured(const DiffReportInput& input) {
  if (!input.bound) return;
  const auto& values = input.measured().values;
  if (values.size() >= 2 && values.front() && values.back()) return;
  const bool is_last = !values.empty() && values.front();
  std::string compare = "heapsnap diff";
  if (input.by) compare += " --by " + std::string(to_string(*input.by));
  throw Error(ErrorKind::kUnsupported,
              "--fail-on-growth" + (input.by ? " by " + std::string(to_string(*input.by)) : ""),
              std::string("the ") + (is_last ? "last" : "first") + " snapshot does not tell it",
              "see why, and how to take one that does: " + compare + " " + input.snapshot_words());
}

}  // namespace

int run_diff(const std::vector<std::string>& words) {
  DiffArguments arguments;
  OptionParser parser("diff [options] OLD NEW [MORE...]", kDiffDescription);
  parser.text("by", arguments.by, "SUMS",
              "only one kind of rows: owner, type, stack, leak, size, arena, rss, class or context "
              "(default: "
              "all)");
  parser.number("limit", arguments.limit, "N",
                "rows of each kind (default: 5, with --by 20; 0: all)");
  parser.text("fail-on-growth", arguments.fail_on_growth, "BOUND",
              "exit with code 1 if memory in use grew by more than this: 10%, or 64MiB; with --by, "
              "the total of these rows");
  add_pass_over_options(parser, arguments.pass_over);
  parser.text("sysroot", arguments.sysroot, "DIR",
              "directory that holds the target's files, for names missing from the snapshots");
  add_report_options(parser, arguments.style, "print one JSON object, with all rows that changed");
  parser.positionals("SNAPSHOT", arguments.snapshots);
  parser.example("heapsnap diff old.hsnap new.hsnap", "what grew from the one to the other");
  parser.example("heapsnap diff night-*.hsnap --by owner", "which variables only grow");
  parser.example("heapsnap diff before.hsnap after.hsnap --fail-on-growth 10%",
                 "for a test: exit code 1 where it takes more memory than before");
  if (!parser.parse(words)) return kExitDone;
  const std::optional<DiffBy> by = parse_sums(arguments.by);
  std::optional<GrowthBound> bound = parse_bound(arguments.fail_on_growth);
  const TextStyle style = text_style(arguments.style);
  check_snapshots_to_compare(arguments.snapshots);
  std::vector<std::string> paths = arguments.snapshots;
  StepLine working("comparing the snapshots");
  const SnapshotDiff diff = read_diff(paths, by ? std::vector<DiffBy>{*by} : all_sums(),
                                      passed_frames(arguments.pass_over), arguments.sysroot);
  const DiffSnapshot* const live = last_live(diff);
  const bool may_run = live == nullptr || may_still_run(live->process);
  const DiffReportInput input{diff, std::move(paths), by, std::move(bound), may_run};
  require_measured(input);
  working.end();
  Writer out(STDOUT_FILENO, "standard output");
  if (arguments.style.json) {
    print_json_diff(out, input);
  } else {
    const uint64_t rows = by ? kRowsOfOne : kRowsOfEach;
    print_diff(out, input, arguments.limit == kNotGiven ? rows : arguments.limit, style);
  }
  out.flush();
  return input.is_past_bound() ? kExitFound : kExitDone;
}

}  // namespace heapsnap
