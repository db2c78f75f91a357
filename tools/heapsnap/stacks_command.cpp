#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "analysis/language_runtime.h"
#include "analysis/old_blocks.h"
#include "analysis/stack_groups.h"
#include "analysis/unnamed_share.h"
#include "base/error.h"
#include "base/file_name.h"
#include "base/free_name.h"
#include "elf/debuginfod_client.h"
#include "report/churn_log.h"
#include "report/heapprof_listing.h"
#include "report/next_step_text.h"
#include "report/number_text.h"
#include "report/shell_word.h"
#include "report/stack_report.h"
#include "report/terminal_text.h"
#include "report/tracked_start.h"
#include "snapshot/snapshot_reader.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/injection_text.h"
#include "tools/heapsnap/pass_over_options.h"
#include "tools/heapsnap/report_output.h"
#include "tools/heapsnap/snapshot_argument.h"
#include "tools/heapsnap/stack_names.h"
#include "tools/heapsnap/step_line.h"
#include "tools/heapsnap/temporary_snapshot.h"
#include "tools/heapsnap/tracked_stacks.h"
#include "tracking/interpreted_frames.h"

namespace heapsnap {

namespace {

constexpr const char* kStacksDescription =
    "Lists the call stacks that allocated the blocks in use of a tracked process: from a snapshot "
    "of\n"
    "attach or core, or from a running process, of which heapsnap takes a temporary snapshot (a\n"
    "pause of milliseconds). A word with a '/', or that ends in .hsnap, is a file; a number is a\n"
    "PID; any other word is the snapshot of that name in the current directory if there is one,\n"
    "else the process of that name.\n"
    "\n"
    "  text      share, bytes, sizes, rates and frames of each stack\n"
    "  heapprof  heapprof's listing: share, bytes, sizes of blocks, frames\n"
    "  churnlog  an entry of pmem's log: bytes and counts allocated and freed by each stack\n"
    "\n"
    "--by function and --by module charge each stack to its innermost frame that is not a wrapper\n"
    "of malloc. They pass over operator new, namespace std, xmalloc, g_malloc, palloc, "
    "PyMem_Malloc\n"
    "and the like (docs/call-stacks.md lists all), and the start code of processes and threads. "
    "If\n"
    "all frames are passed over, the outermost wrapper is charged.";

// It asks those of the distributions.
constexpr std::string_view kAllServers = "debuginfod.elfutils.org";

struct StacksArguments {
  std::string what;
  std::string sort = "live-bytes";
  std::string by = "stack";
  std::string format = "text";
  std::string sysroot;
  PassOverOptions pass_over;
  uint64_t limit = 20;
  uint64_t blocks = 32;
  bool all = false;
  bool ask_debuginfod = false;
  ReportStyle style;
};

StackOrder parse_order(const std::string& text) {
  check_choice("--sort", text, {"live-bytes", "live-blocks", "rate", "churn"});
  if (text == "live-blocks") return StackOrder::kLiveBlocks;
  if (text == "rate") return StackOrder::kRate;
  return text == "churn" ? StackOrder::kChurn : StackOrder::kLiveBytes;
}

void print_churn_log(const SnapshotReader& snapshot, const RecordedStacks& recorded, Writer& out) {
  uint64_t churn = 0;
  for (const AllocationSite& site : recorded.stacks.sites) {
    churn += site.allocated_bytes + site.freed_bytes;
  }
  ChurnLog(out).add(recorded, *snapshot.metadata().tracker, churn, 0);
}

void print_listing(const StacksArguments& arguments, const SnapshotReader& snapshot,
                   const RecordedStacks& recorded, const StackCensus& census,
                   const FunctionGroups& functions, const PassedFrames& passed,
                   const std::string& path, Writer& out) {
  const SnapshotMetadata& metadata = snapshot.metadata();
  StackReportInput input{metadata, recorded, census, parse_order(arguments.sort), {}, {},
                         path,     passed,   {}};
  if (census.without_stack.count != 0) {
    PassedFrames all_passed = passed;
    pass_over_unnamed(census, recorded, *metadata.tracker, all_passed);
    input.old_blocks =
        attribute_old_blocks(streams_of(snapshot), recorded, all_passed, kMostOldSizes);
  }
  const size_t limit = arguments.all ? 0 : arguments.limit;
  const TextStyle text = text_style(arguments.style);
  if (arguments.by == "thread") {
    const auto ranked =
        ranked_threads(metadata.tracker->threads, input.order, arguments.style.json ? 0 : limit);
    arguments.style.json ? print_json_tracked_threads(out, input, ranked)
                         : print_tracked_threads(out, input, ranked, text);
    return;
  }
  if (arguments.by != "stack") {
    FunctionGroups groups = functions;
    if (arguments.by == "module") {
      groups = {group_by_module(census, recorded, *metadata.tracker, passed), {}, {}};
    }
    rank_groups(groups.groups, input.order, limit);
    arguments.style.json ? print_json_stack_groups(out, input, groups, arguments.by)
                         : print_stack_groups(out, input, groups, arguments.by, text);
    return;
  }
  const bool is_heapprof = arguments.format == "heapprof";
  input.ranked = ranked_stacks(census, recorded.stacks, input.order, is_heapprof ? 0 : limit);
  input.sizes = block_sizes(streams_of(snapshot), input.ranked);
  if (is_heapprof) {
    print_heapprof_listing(out, input, arguments.blocks == 0 ? UINT64_MAX : arguments.blocks);
  } else if (arguments.style.json) {
    print_json_stacks(out, input);
  } else {
    print_stacks(out, input, text);
  }
}

void print_step(Writer& out, const std::string& why, const std::string& command, size_t width) {
  constexpr size_t kIndent = 2;
  for (const std::string& line : wrapped(why, width - kIndent)) out.write("  " + line + "\n");
  out.write("    " + command + "\n");
}

bool has_allocations(const CallStacks& stacks) {
  return std::any_of(stacks.sites.begin(), stacks.sites.end(),
                     [](const AllocationSite& site) { return site.allocations != 0; });
}

// For a listing without a row.
void print_step_from_nothing(Writer& out, const std::string& listing, const std::string& what,
                             bool is_running, const CallStacks& stacks, size_t width) {
  if (has_allocations(stacks)) {
    print_step(out,
               "No block that was recorded is still in use. To see which functions allocated "
               "those that have been freed:",
               listing + " --by function --sort rate", width);
  } else if (is_running) {
    print_step(out,
               "No allocation has been recorded yet. Let the program run for a while, and list "
               "again:",
               listing, width);
  } else {
    print_step(out,
               "No allocation had been recorded by then. To see what the process used its memory "
               "for:",
               "heapsnap report " + what, width);
  }
}

std::string asking_all_servers(const std::string& listing) {
  return fmt::format("DEBUGINFOD_URLS=https://{} {} --debuginfod", kAllServers, listing);
}

bool are_all_servers_asked() {
  const char* const servers = std::getenv("DEBUGINFOD_URLS");
  return servers != nullptr && std::string_view(servers).find(kAllServers) != std::string::npos;
}

// What gives the functions of a stripped module their names: `label` is its file's name.
std::string way_to_names(const TrackerRecord& tracker, const std::string& label) {
  for (const TrackedModule& module : tracker.modules) {
    const bool is_packaged =
        module.path.starts_with("/usr/") && !module.path.starts_with("/usr/local/");
    if (is_packaged || module.build_id.size() < 4 || file_name_of(module.path) != label) continue;
    return fmt::format(
        "copy the unstripped file of the same build to /usr/lib/debug/.build-id/{}/{}.debug",
        module.build_id.substr(0, 2), module.build_id.substr(2));
  }
  return "install its debug symbols (on Debian a package NAME-dbgsym)";
}

// For a program whose functions an interpreter runs, and nobody recorded; returns whether it is.
bool print_step_to_functions(Writer& out, const SnapshotMetadata& metadata,
                             const CallStacks& stacks, bool is_running, size_t width) {
  if (has_interpreted_frames(stacks)) return false;
  const auto language = recordable_language(metadata.mappings);
  if (!language) return false;
  print_step(out,
             fmt::format("The stacks name functions of the interpreter. To record {}'s {}, of "
                         "samples, as they cost several times what stacks alone do:",
                         *language == Language::kPython ? "Python" : "Ruby",
                         is_running ? "from now on" : "in the next run"),
             is_running ? fmt::format("heapsnap inject {} {}", kWithFunctions, metadata.process.pid)
                        : tracked_start_command(metadata.process, kWithFunctions),
             width);
  return true;
}

// `what`: the snapshot or the PID, as a word of a command. `is_running`: it is a PID.
void print_next_steps(Writer& out, const StacksArguments& arguments, const std::string& what,
                      bool is_running, const SnapshotReader& snapshot,
                      const RecordedStacks& recorded, const StackCensus& census,
                      const UnnamedShare& unnamed) {
  constexpr double kWorthSaying = 0.2;
  const size_t width = text_style(arguments.style).width;
  const bool is_by_stack = arguments.by == "stack";
  const std::string sort = arguments.sort == "live-bytes" ? "" : " --sort " + arguments.sort;
  const std::string listing = "heapsnap stacks " + what;
  const uint64_t churned = churned_bytes(census, recorded.stacks);
  out.write("\nWhat next\n");
  if (arguments.sort != "churn" && churned != 0) {
    const NextStepPart step = churn_step(churned, what);
    print_step(out, step.text, step.commands.front(), width);
  } else if (total_of(census, recorded.stacks, parse_order(arguments.sort)) == 0) {
    print_step_from_nothing(out, listing, what, is_running, recorded.stacks, width);
  } else if (is_by_stack) {
    print_step(out, "To add them up by the function that they are charged to:",
               listing + " --by function" + sort, width);
  } else if (is_running || !sort.empty() || !snapshot.has_references()) {
    print_step(out, "To see the stacks themselves, with all frames:", listing + sort, width);
  }
  const bool may_name_functions =
      print_step_to_functions(out, snapshot.metadata(), recorded.stacks, is_running, width);
  if (is_running) {
    print_step(out,
               "To keep the stacks and the heap in a file, and see later what grew since: take a "
               "snapshot now and another one then, and compare them with heapsnap diff:",
               fmt::format("heapsnap attach {} -o {}", what, free_file_name("first.hsnap")), width);
    print_step(out, "To disable the tracker when you have seen enough:", "heapsnap eject " + what,
               width);
  } else if (!is_by_stack && sort.empty() && snapshot.has_references()) {
    print_step(out, "To see what keeps the blocks in use alive:", "heapsnap owners " + what, width);
  }
  if (arguments.ask_debuginfod && unnamed.share > 0) {
    const std::string why = why_debuginfod_is_not_asked();
    const std::string still = fmt::format(
        "{} is still charged to functions without a name, most "
        "of it in {}: ",
        percent_text(unnamed.share), printable(unnamed.module));
    if (!why.empty()) {
      print_step(out, still + why + ", so that --debuginfod fetched nothing. With a server:",
                 asking_all_servers(listing), width);
    } else if (are_all_servers_asked()) {
      print_step(out,
                 still +
                     "no debug symbols of it came from the servers in DEBUGINFOD_URLS: they "
                     "have none, or cannot be reached. Once they are installed (on Debian a "
                     "package NAME-dbgsym), list the stacks again:",
                 listing + sort, width);
    } else {
      print_step(out,
                 still +
                     "no debug symbols of it came from the servers in DEBUGINFOD_URLS: they "
                     "have none, or cannot be reached. To ask the servers of all "
                     "distributions:",
                 asking_all_servers(listing), width);
    }
    return;
  }
  // The interpreter's own functions would say less.
  if (unnamed.share < kWorthSaying || arguments.ask_debuginfod || may_name_functions) return;
  print_step(out,
             fmt::format("{} is charged to functions without a name, most of it in {}. For names, "
                         "{} and list them again, or fetch them:",
                         percent_text(unnamed.share), printable(unnamed.module),
                         way_to_names(*snapshot.metadata().tracker, unnamed.module)),
             asking_all_servers(listing), width);
}

}  // namespace

int run_stacks(const std::vector<std::string>& words) {
  StacksArguments arguments;
  OptionParser parser("stacks [options] SNAPSHOT|PID|NAME|container:ID|pod:UID",
                      kStacksDescription);
  parser.text("sort", arguments.sort, "ORDER",
              "live-bytes (default), live-blocks, rate (allocations) or churn (bytes allocated and "
              "freed); shares are of the same quantity");
  parser.text("by", arguments.by, "GROUP",
              "stack (default), function, module, or thread (what it allocated and freed)");
  parser.number("limit", arguments.limit, "N", "list N entries (default: 20)");
  parser.flag("all", arguments.all, "list all entries");
  add_pass_over_options(parser, arguments.pass_over);
  parser.text("format", arguments.format, "LISTING", "text (default), heapprof or churnlog");
  parser.number("blocks", arguments.blocks, "N",
                "block sizes that heapprof's listing shows per stack (default: 32; 0: all)");
  parser.text("sysroot", arguments.sysroot, "DIR",
              "directory that holds the target's files, for names missing from the snapshot");
  parser.flag("debuginfod", arguments.ask_debuginfod,
              "fetch debug files from the servers in DEBUGINFOD_URLS");
  add_report_options(parser, arguments.style);
  parser.positional("SNAPSHOT", arguments.what);
  parser.example("heapsnap stacks 4242 --limit 5",
                 "the five stacks that allocated the most memory of PID 4242");
  parser.example("heapsnap stacks a.hsnap --by function --sort churn",
                 "the functions that allocate and free the most");
  parser.example("heapsnap stacks a.hsnap --by function --pass-over 'pool_*'",
                 "who asked the program's own allocator for memory");
  if (!parser.parse(words)) return kExitDone;
  if (arguments.what.empty()) {
    throw Error(ErrorKind::kUsage, "stacks", "it needs a snapshot or a process",
                "for example: heapsnap stacks 4242");
  }
  check_choice("--by", arguments.by, {"stack", "function", "module", "thread"});
  check_choice("--format", arguments.format, {"text", "heapprof", "churnlog"});
  if (arguments.format != "text" && (arguments.by != "stack" || arguments.style.json)) {
    throw Error(ErrorKind::kUsage, "--format " + arguments.format,
                "it lists stacks as text, and cannot be combined with --by or --json");
  }
  const StackOrder order = parse_order(arguments.sort);
  if (arguments.format == "heapprof" &&
      (order == StackOrder::kRate || order == StackOrder::kChurn)) {
    throw Error(ErrorKind::kUsage, "--format heapprof --sort " + arguments.sort,
                "this listing covers only blocks in use",
                "leave --format out, or sort by live-bytes or live-blocks");
  }
  text_style(arguments.style);
  const PassedFrames passed = passed_frames(arguments.pass_over);

  const DebugFileSearch debug_files =
      stack_debug_files(arguments.sysroot, arguments.ask_debuginfod);
  std::optional<TemporarySnapshot> own;
  const SnapshotArgument source = resolve_snapshot(arguments.what, "heapsnap stacks");
  print_notes(source.notes);
  StepLine working("reading the call stacks");
  const std::string path =
      source.is_file ? source.path : own.emplace(source.pid, debug_files).path();
  const SnapshotReader snapshot = SnapshotReader::open(path);
  const RecordedStacks recorded = read_tracked_stacks(snapshot, {arguments.what, own.has_value()},
                                                      debug_files, arguments.sysroot);
  Writer out(STDOUT_FILENO, "standard output");
  if (arguments.format == "churnlog") {
    working.end();
    print_churn_log(snapshot, recorded, out);
    out.flush();
    return kExitDone;
  }
  const StackCensus census = take_stack_census(streams_of(snapshot), recorded.stacks);
  const bool has_next_steps = arguments.format == "text" && !arguments.style.json;
  FunctionGroups functions;
  if (has_next_steps || arguments.by == "function") {
    functions = group_by_function(census, recorded, *snapshot.metadata().tracker, passed);
  }
  working.end();
  // Programs get what they have asked for.
  if (has_next_steps && listing_order(census, recorded.stacks, order) == StackOrder::kChurn) {
    arguments.sort = "churn";
  }
  print_listing(arguments, snapshot, recorded, census, functions, passed,
                own ? std::string() : path, out);
  if (has_next_steps) {
    const std::string what =
        own ? std::to_string(snapshot.metadata().process.pid) : shell_word(path, "SNAPSHOT");
    print_next_steps(out, arguments, what, own.has_value(), snapshot, recorded, census,
                     unnamed_share(functions));
  }
  out.flush();
  return kExitDone;
}

}  // namespace heapsnap
