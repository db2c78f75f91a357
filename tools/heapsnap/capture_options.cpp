#include "tools/heapsnap/capture_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/free_name.h"
#include "report/number_text.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/error_output.h"
#include "tools/heapsnap/output_name.h"

namespace heapsnap {

namespace {

constexpr const char* kDefaultName = "%n.%p.%t.hsnap";

bool has_walked_heap(const SnapshotMetadata& metadata) {
  return !metadata.heap.instances.empty();
}

// A foreign allocator beside an idle glibc malloc is the program's real one.
bool is_foreign_heap(const SnapshotMetadata& metadata) {
  return !metadata.heap.foreign_allocator.empty() && is_idle(metadata.heap, metadata.process.rss);
}

void print_verbose(const CaptureResult& result) {
  const SnapshotMetadata& metadata = result.metadata;
  print_notice(fmt::format("freeze: {}\n", metadata.freeze.why));
  for (const std::string& note : metadata.freeze.notes)
    print_notice(fmt::format("freeze: {}\n", note));
  for (const MallocInstance& instance : metadata.heap.instances) {
    print_notice(fmt::format(
        "malloc: {} (glibc {}.{}), main_arena at {:#x} by {}, layout from {}\n", instance.module,
        instance.version.major, instance.version.minor, instance.main_arena.value(),
        to_string(instance.strategy), instance.layout_source));
    for (const std::string& note : instance.notes) print_notice(fmt::format("malloc: {}\n", note));
  }
  for (const std::string& note : metadata.notes) print_notice(fmt::format("note: {}\n", note));
  const double seconds = static_cast<double>(result.capture_ns) / 1e9;
  print_notice(fmt::format("capture: {} chunks in {:.3f} s from freeze to closed file, {} bytes\n",
                           result.chunks, seconds, result.file_size));
}

CaptureChoice capture_choice(const char* option, const std::string& text) {
  if (text.empty()) return CaptureChoice::kAuto;
  if (const auto choice = parse_capture_choice(text)) return *choice;
  throw Error(ErrorKind::kUsage, "invalid value of --" + std::string(option) + ": " + text, "",
              "give auto, yes or no");
}

}  // namespace

void add_capture_options(OptionParser& parser, CaptureArguments& arguments) {
  parser.text("output,o", arguments.output, "FILE",
              "the snapshot: %h host, %p PID, %n name, %t time; - for standard output "
              "(default: %n.%p.%t.hsnap)");
  parser.flag("force,f", arguments.force, "replace FILE if it exists");
  parser.flag("literal-name", arguments.literal_name, "do not expand % letters in FILE");
  parser.flag("contents", arguments.contents,
              "also store the contents of private memory (may hold secrets)");
  parser.text(
      "references", arguments.references, "WHEN",
      "also look at every word for what keeps blocks alive: auto (where that takes less than "
      "a second), yes or no (default: auto)");
  parser.text("runtimes", arguments.runtimes, "WHEN",
              "also read the heap of a Python or Ruby interpreter or of a PostgreSQL server in the "
              "process: auto (while the process runs on), yes (also where it is stopped for it) or "
              "no (default: auto)");
  parser.text(
      "memory-budget", arguments.memory_budget, "SIZE",
      "leave that out when the process writes to more than SIZE of its memory while a copy is "
      "read, or free memory falls by SIZE meanwhile (default: a tenth of what is free)");
  parser.flag("with-arguments", arguments.with_arguments,
              "also store the command-line arguments (may hold passwords)");
  parser.flag("no-debug-files", arguments.no_debug_files,
              "do not look for separate debug files (they are optional)");
  parser.flag("debuginfod", arguments.ask_debuginfod,
              "fetch debug files from the servers in DEBUGINFOD_URLS");
  parser.flag("no-symbols", arguments.no_symbols,
              "do not symbolize the call stacks of a tracked process");
  add_report_options(parser, arguments.report);
  parser.flag("quiet,q", arguments.quiet, "print neither report nor progress");
  parser.flag("verbose,v", arguments.verbose, "print details to standard error");
}

CaptureOptions to_capture_options(const CaptureArguments& arguments, const Process& process,
                                  int64_t taken_at_ns, const std::string& sysroot) {
  text_style(arguments.report);  // refuses what is wrong with it before anything is done
  CaptureOptions options;
  const std::string pattern = arguments.output.empty() ? kDefaultName : arguments.output;
  options.output.path =
      arguments.literal_name ? pattern : expand_output_name(pattern, process, taken_at_ns);
  if (arguments.output.empty()) {
    options.output.path = free_file_name(options.output.path);  // two may be of one second
  }
  options.output.overwrite = arguments.force;
  options.keep_contents = arguments.contents;
  options.keep_arguments = arguments.with_arguments;
  options.name_stacks = !arguments.no_symbols;
  options.references.choice = capture_choice("references", arguments.references);
  options.runtimes = capture_choice("runtimes", arguments.runtimes);
  if (!arguments.memory_budget.empty()) {
    options.references.memory_budget = parse_byte_size("--memory-budget", arguments.memory_budget);
  }
  options.sysroot = sysroot;
  DebugFileSearch::Options search;
  search.sysroot = sysroot;
  search.ask_servers = arguments.ask_debuginfod;
  if (arguments.no_debug_files) {
    search.directories.clear();
    search.debuginfod_cache = false;
  }
  options.debug_files = DebugFileSearch(search);
  return options;
}

CaptureProgress::CaptureProgress(CaptureOptions& options, bool quiet)
    : walk_("walking the heap:", quiet), references_("looking for references:", quiet) {
  options.progress = [this](uint64_t done, uint64_t total) { walk_.show(done, total); };
  options.references.progress = [this](uint64_t done, uint64_t total) {
    references_.show(done, total);
  };
}

int announce_capture(const CaptureResult& result, const CaptureOptions& options,
                     const CaptureArguments& arguments) {
  const bool to_stdout = options.output.path == "-";
  if (arguments.verbose) print_verbose(result);
  if (to_stdout && !arguments.quiet) {
    print_notice(fmt::format("heapsnap: {}, {}, paused {}\n",
                             count_text(result.chunks, "chunk", "chunks"),
                             count_text(result.file_size, "byte", "bytes"),
                             duration_text(result.metadata.freeze.pause_ns)));
  } else if (!arguments.quiet) {
    print_snapshot_report(SnapshotReader::open(options.output.path), options.output.path,
                          ReportDepth::kFirstScreen, arguments.report);
  }
  const SnapshotMetadata& metadata = result.metadata;
  if (has_walked_heap(metadata) && !is_foreign_heap(metadata)) return kExitDone;
  const std::string allocator = metadata.heap.foreign_allocator;
  print_notice(
      fmt::format("heapsnap: {}: its chunks are not in the snapshot\n  why: {}\n",
                  allocator.empty() ? "no glibc malloc was found" : "the allocator is " + allocator,
                  allocator.empty() ? "no module of the process has one that passes verification"
                                    : "heapsnap walks the heaps of glibc's malloc"));
  // A report ends with what to do.
  if (to_stdout || arguments.quiet) {
    print_notice(
        fmt::format("  do:  the snapshot accounts for all memory by mapping: heapsnap report {}\n",
                    to_stdout ? "FILE" : options.output.path));
  }
  return static_cast<int>(ErrorKind::kUnsupported);
}

}  // namespace heapsnap
