#include "tools/heapsnap/attach_via_ruby.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "platform/linux/freeze/running_process.h"
#include "report/number_text.h"
#include "report/shell_word.h"
#include "report/terminal_text.h"
#include "tools/heapsnap/error_output.h"
#include "tools/heapsnap/injection_text.h"
#include "tools/heapsnap/result_file.h"
#include "tools/heapsnap/step_line.h"
#include "tools/inject/ruby_dump.h"

namespace heapsnap {

namespace {

void refuse_snapshot_options(const CaptureArguments& arguments) {
  const std::pair<bool, const char*> options[] = {
      {arguments.contents, "--contents"},
      {!arguments.references.empty(), "--references"},
      {!arguments.runtimes.empty(), "--runtimes"},
      {!arguments.memory_budget.empty(), "--memory-budget"},
      {arguments.with_arguments, "--with-arguments"},
      {arguments.no_debug_files, "--no-debug-files"},
      {arguments.ask_debuginfod, "--debuginfod"},
      {arguments.no_symbols, "--no-symbols"},
      {arguments.report.json, "--json"}};
  for (const auto& [is_given, option] : options) {
    if (!is_given) continue;
    throw Error(ErrorKind::kUsage, std::string("attach --via ruby ") + option,
                "the process writes lines of JSON, not a snapshot",
                std::string("leave out ") + option + ", or --via ruby for a snapshot");
  }
}

void announce(const RubyDump& dump, const Process& process, const std::string& path) {
  fmt::print("Process {}: {}\n", process.pid, printable(process.comm));
  fmt::print("  dump      {} ({})\n", path, size_text(dump.bytes));
  fmt::print("  ruby      {}, {} of ObjectSpace.dump_all: objects and roots\n",
             printable(dump.version), count_text(dump.lines, "line", "lines"));
  fmt::print("  forked a child, which forked the one that wrote, and ended at once\n");
  print_look_pauses(dump.look_pauses);
  fmt::print("  {}\n", stolen_text(dump.call.stolen));
  if (dump.signals != 0) {
    fmt::print("  woken by {}: SIGVTALRM and SIGCHLD, where it has handlers for them\n",
               count_text(dump.signals, "signal", "signals"));
  }
  print_notes(dump.call.notes);
  print_what_next({{"To see the objects by class, without the process's help:",
                    fmt::format("heapsnap objects {}", process.pid)}});
}

}  // namespace

int attach_via_ruby(int pid, CaptureArguments arguments) {
  refuse_snapshot_options(arguments);
  if (arguments.output.empty()) arguments.output = "%n.%p.%t.json";
  const Process process = open_running_process(pid)->process();
  const CaptureOptions options = to_capture_options(arguments, process, realtime_ns());
  ResultFile result(options.output.path, arguments.force);
  std::optional<StepLine> working;
  if (!arguments.quiet && !result.is_terminal()) working.emplace("the process writes its objects");
  const RubyDump dump = dump_ruby(pid, RubyDumpOptions(), [&](std::span<const char> text) {
    result.writer().write(std::string_view(text.data(), text.size()));
  });
  working.reset();
  result.commit();
  const bool is_stdout = options.output.path == "-";
  if (!arguments.quiet && !is_stdout) announce(dump, process, options.output.path);
  return kExitDone;
}

}  // namespace heapsnap
