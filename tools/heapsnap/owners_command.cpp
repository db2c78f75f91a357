#include <unistd.h>

#include <charconv>

#include "analysis/owner_tree.h"
#include "base/error.h"
#include "report/reference_report.h"
#include "report/shell_word.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/explained_snapshot.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/report_output.h"
#include "tools/heapsnap/step_line.h"

namespace heapsnap {

namespace {

constexpr const char* kOwnersDescription =
    "Shows what keeps the memory alive: each variable, thread-local variable, stack frame and\n"
    "mapping with what only it leads to, and below it the blocks that hold the rest, those that "
    "are\n"
    "alike as one. Reads a snapshot with references, a core, or a running process, of which "
    "heapsnap\n"
    "takes a temporary snapshot (a pause of milliseconds).\n"
    "\n"
    "Stack frames and registers own only what nothing longer-lived leads to. Blocks of up to 512\n"
    "bytes are alike when they have the same type, or else the same size and place in what holds\n"
    "them; larger ones count as arrays.";

struct OwnersArguments {
  SnapshotSource explain;
  std::string by = "root";
  std::string min_share = "1%";
  uint64_t depth = 3;
  uint64_t limit = 10;
  ReportStyle style;
};

OwnerGrouping parse_grouping(const std::string& text) {
  check_choice("--by", text, {"root", "type", "stack"});
  if (text == "type") return OwnerGrouping::kType;
  return text == "stack" ? OwnerGrouping::kStack : OwnerGrouping::kRoot;
}

// "5%", "0.5%", "5"
double parse_share(const std::string& text) {
  const char* const end = text.data() + text.size();
  double percent = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, percent);
  const bool is_whole = rest == end || (rest + 1 == end && *rest == '%');
  if (error != std::errc() || !is_whole || !(percent >= 0 && percent <= 100)) {
    throw Error(ErrorKind::kUsage, "--min-share " + text, "not a share of 0 to 100 %",
                "for example: --min-share 0.5%");
  }
  return percent / 100;
}

}  // namespace

int run_owners(const std::vector<std::string>& words) {
  OwnersArguments arguments;
  OptionParser parser("owners [options] SNAPSHOT|CORE|PID|NAME|container:ID|pod:UID",
                      kOwnersDescription);
  parser.text("by", arguments.by, "OWNER",
              "root (default), type (of the outermost blocks), or stack (that allocated these)");
  parser.number("depth", arguments.depth, "N", "list blocks N levels below a root (default: 3)");
  parser.number("limit", arguments.limit, "N",
                "list N roots, and N kinds of blocks below each (default: 10; 0: all)");
  parser.text("min-share", arguments.min_share, "PERCENT",
              "leave out blocks that keep less than this of what is in use (default: 1%)");
  add_source_options(parser, arguments.explain);
  add_report_options(parser, arguments.style, "print one JSON object, with all roots");
  parser.positional("SNAPSHOT", arguments.explain.what);
  parser.example("heapsnap owners 4242", "the variables that hold most of PID 4242's memory");
  parser.example("heapsnap owners a.hsnap --depth 6 --limit 1",
                 "the largest of them, down to its smallest parts");
  if (!parser.parse(words)) return kExitDone;
  OwnerListing listing{parse_grouping(arguments.by), arguments.depth, arguments.limit,
                       parse_share(arguments.min_share)};
  const TextStyle style = text_style(arguments.style);
  StepLine working("finding what owns the memory");
  const ExplainedSnapshot snapshot("owners", arguments.explain);
  if (listing.by == OwnerGrouping::kStack && !snapshot.metadata().tracker) {
    throw Error(ErrorKind::kUnsupported, arguments.explain.what,
                "the process was not tracked, so that no stacks are known",
                "leave --by out, or load the tracker: heapsnap inject " +
                    pid_word(snapshot.metadata().process));
  }
  const OwnerTree tree = make_owner_tree(snapshot.streams(), snapshot.references(), listing.by);
  working.end();
  Writer out(STDOUT_FILENO, "standard output");
  if (arguments.style.json) {
    print_json_owners(out, snapshot.report_input(), tree, listing);
  } else {
    print_owners(out, snapshot.report_input(), tree, listing, style);
  }
  out.flush();
  return kExitDone;
}

}  // namespace heapsnap
