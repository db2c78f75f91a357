#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "analysis/leak_census.h"
#include "analysis/leak_suppressions.h"
#include "base/error.h"
#include "report/reference_report.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/explained_snapshot.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/report_output.h"
#include "tools/heapsnap/step_line.h"

namespace heapsnap {

namespace {

constexpr const char* kLeaksDescription =
    "Lists the blocks that nothing leads to any more: no variable, thread-local variable, stack,\n"
    "register or other mapping holds their address, nor does a block that one of these leads to.\n"
    "Reads a snapshot with references, a core, or a running process, of which heapsnap takes a\n"
    "temporary snapshot (a pause of milliseconds). Exits with 1 when something is leaked.\n"
    "\n"
    "Blocks are leaked directly (no other leaked block points to them), in a cycle (they point to\n"
    "each other), or indirectly (held by leaked ones).\n"
    "\n"
    "Words at addresses that are multiples of their size count, and registers; vector registers\n"
    "only where a thread is in its own code. What only a pointer at another address, in another\n"
    "vector register or in memory that a core lacks leads to is listed, too.";

struct LeaksArguments {
  SnapshotSource explain;
  std::vector<std::string> suppressions;
  uint64_t limit = 20;
  bool all = false;
  ReportStyle style;
};

LeakSuppressions read_suppressions(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) {
    std::error_code ignored;
    std::ifstream file(path);
    if (!file || std::filesystem::is_directory(path, ignored)) {
      throw Error(ErrorKind::kUsage, path, "cannot be read as a file of suppressions");
    }
    std::ostringstream all;
    all << file.rdbuf();
    LeakSuppressions::parse(all.str(), path);  // so that an error names the file
    text += all.str() + "\n";
  }
  return LeakSuppressions::parse(text, "suppressions");
}

IsSuppressed suppression_rule(const LeakSuppressions& suppressions,
                              const ExplainedSnapshot& snapshot) {
  if (suppressions.is_empty()) return {};
  std::vector<bool> stacks;
  if (snapshot.metadata().tracker) {
    stacks = suppressed_stacks(suppressions, snapshot.recorded(), *snapshot.metadata().tracker);
  }
  std::vector<bool> types;
  for (const BlockType& type : snapshot.references().types) {
    types.push_back(suppressions.matches(type.name) || suppressions.matches(type.module));
  }
  return [stacks, types](uint32_t stack, TypeNumber type) {
    return (stack < stacks.size() && stacks[stack]) || (type < types.size() && types[type]);
  };
}

}  // namespace

int run_leaks(const std::vector<std::string>& words) {
  LeaksArguments arguments;
  OptionParser parser("leaks [options] SNAPSHOT|CORE|PID|NAME|container:ID|pod:UID",
                      kLeaksDescription);
  parser.texts("suppressions", arguments.suppressions, "FILE",
               "leave out what matches the lines leak:PATTERN in FILE, as LeakSanitizer does: by "
               "function, source file, module or type (repeatable)");
  parser.number("limit", arguments.limit, "N", "list N groups (default: 20; 0: all)");
  parser.flag("all", arguments.all, "with --json, list each block, too");
  add_source_options(parser, arguments.explain);
  add_report_options(parser, arguments.style, "print one JSON object, with all groups");
  parser.positional("SNAPSHOT", arguments.explain.what);
  parser.example("heapsnap leaks 4242", "what has leaked in PID 4242, the largest first");
  parser.example("heapsnap leaks a.hsnap --suppressions lsan.supp",
                 "without the leaks that are known");
  parser.example("heapsnap leaks a.hsnap --all -j | jq '.leaks[].addr'", "the address of each");
  if (!parser.parse(words)) return kExitDone;
  if (arguments.all && !arguments.style.json) {
    throw Error(ErrorKind::kUsage, "--all", "each block is listed as JSON only",
                "add -j, or list all groups: --limit 0");
  }
  const TextStyle style = text_style(arguments.style);
  const LeakSuppressions suppressions = read_suppressions(arguments.suppressions);
  StepLine working("looking for leaks");
  const ExplainedSnapshot snapshot("leaks", arguments.explain);
  const LeakCensus census = take_leak_census(snapshot.streams(), snapshot.references(),
                                             suppression_rule(suppressions, snapshot));
  working.end();
  Writer out(STDOUT_FILENO, "standard output");
  if (arguments.style.json) {
    print_json_leaks(out, snapshot.report_input(), census, arguments.all);
  } else {
    print_leaks(out, snapshot.report_input(), census, arguments.limit, style);
  }
  out.flush();
  return census.all.count == 0 ? kExitDone : kExitFound;
}

}  // namespace heapsnap
