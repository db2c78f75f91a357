#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/resource_limit.h"
#include "elf/disassembler.h"
#include "platform/linux/freeze/end_watch.h"
#include "platform/linux/freeze/running_process.h"
#include "platform/linux/freeze/started_command.h"
#include "platform/linux/self/oom_preference.h"
#include "report/number_text.h"
#include "report/terminal_text.h"
#include "tools/capture/capture.h"
#include "tools/doctor/attach_obstacles.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/error_output.h"
#include "tools/heapsnap/interpreter_watch.h"
#include "tools/heapsnap/memory_limit.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/output_name.h"
#include "tools/heapsnap/program_allocator.h"
#include "tools/tracker_image/tracker_file.h"
#include "tracker/table_layout.h"

namespace heapsnap {

namespace {

constexpr const char* kRunDescription =
    "Starts COMMAND with the tracker loaded, so that every block of its heap has the call stack\n"
    "that allocated it, for heapsnap stacks, attach, core and watch. Passes signals on to COMMAND\n"
    "and exits with its exit code. Its own PID, a shell's $!, stands for that of COMMAND.\n"
    "\n"
    "What it does to COMMAND: LD_PRELOAD names the tracker, which keeps tables in memory and does\n"
    "nothing else. Its file can be replaced by nobody but you and root, and is not removed: the\n"
    "installed library, or a copy in ~/.cache/heapsnap (/var/cache/heapsnap for root). Programs\n"
    "that are statically linked or gain privileges ignore it. With --at-exit, COMMAND is traced,\n"
    "so neither debuggers nor heapsnap attach can attach to it.\n"
    "\n"
    "heapsnap's options come before COMMAND. The two dashes are needed only if an option of\n"
    "COMMAND has the name of one of heapsnap's.";

struct RunArguments {
  std::string sample;
  std::string memory_limit;
  std::string at_exit;
  uint64_t frames = tracker::kDefaultFrames;
  bool follow_children = false;
  bool interpreter_frames = false;
  bool force = false;
};

std::string preload_list(const std::string& tracker) {
  const char* const others = std::getenv("LD_PRELOAD");
  return others == nullptr || *others == '\0' ? tracker : tracker + ":" + others;
}

// Writes the snapshot of a program that stands at its end.
void take_last_snapshot(ProgramEnd& end, const RunArguments& arguments) {
  be_first_oom_victim();  // the program's end is near, and all of it stands still
  CaptureOptions options;
  options.output.overwrite = arguments.force;
  FreezeOptions freeze;
  freeze.end = &end;
  const std::unique_ptr<Target> stopped = open_running_process(end.tid);
  options.output.path = expand_output_name(arguments.at_exit, stopped->process(), realtime_ns());
  capture_process(end.tid, freeze, options);
}

// The tables count for limits of the program's own, which it may need for itself.
void announce_limits() {
  for (const int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    const auto limit = resource_limit(resource);
    if (!limit) continue;
    print_notice(fmt::format(
        "heapsnap: the program may run out of memory earlier than without the tracker\n"
        "  why: ulimit {} is {}, and the tracker's tables count for it: some 31 MiB with one\n"
        "       thread, 90 MiB with eight, before anything is recorded\n"
        "  do:  {}\n",
        option_of_ulimit(resource), size_text(*limit), how_to_raise_limit(resource)));
  }
}

// Says so when nothing will be recorded, or at a price. False: the tracker must not be preloaded
// either, since the runtime of a sanitizer ends the program when another library comes before it.
bool announce_allocator(const std::string& command) {
  const auto found = allocator_of_program(command);
  if (!found) {
    announce_limits();
    return true;
  }
  const AllocatorVerdict& verdict = found->verdict;
  const bool is_foreign = verdict.kind == AllocatorVerdict::Kind::kForeign;
  const bool is_sanitizer = is_foreign && verdict.name.ends_with("Sanitizer");
  const bool is_checked = !is_foreign && !verdict.checker.empty();
  if (found->has_loader && !is_foreign && !is_checked && verdict.interposer.empty()) {
    announce_limits();
    return true;
  }
  std::string why;
  if (is_foreign) {
    why = fmt::format("malloc is provided by {}, {}: the tracker {}", verdict.name, verdict.file,
                      is_sanitizer ? "is not loaded, since the sanitizer's runtime must come first"
                                   : "supports glibc's only, and passes the calls on");
  } else if (is_checked) {
    why = fmt::format("malloc is provided by {}: the tracker passes the calls on", verdict.checker);
  } else if (!found->has_loader) {
    why = found->program + " is statically linked: nothing can be preloaded";
  } else {
    why = "malloc is provided by " + verdict.interposer +
          ", and only what it passes on to glibc's malloc is recorded";
  }
  print_notice(fmt::format(
      "heapsnap: {}: {} of its blocks will have a call stack\n  why: {}\n", printable(command),
      is_foreign || is_checked || !found->has_loader ? "none" : "not all", printable(why)));
  return !is_sanitizer;
}

}  // namespace

int run_run(const std::vector<std::string>& words) {
  RunArguments arguments;
  OptionParser parser("run [options] [--] COMMAND [ARGUMENTS]", kRunDescription);
  parser.text("sample", arguments.sample, "BYTES",
              "record one allocation per BYTES on average, unbiased (default: all)");
  parser.number("frames", arguments.frames, "N",
                "innermost frames to keep per stack, 0: no limit (default: 64)");
  add_memory_limit(parser, arguments.memory_limit);
  parser.flag("interpreter-frames", arguments.interpreter_frames,
              "also record the functions of Python (3.11-3.13) and Ruby (3.1-3.4) that run");
  parser.flag("follow-children", arguments.follow_children,
              "also track the programs that COMMAND starts");
  parser.text("at-exit", arguments.at_exit, "FILE",
              "write a snapshot when COMMAND ends, also by a signal (%h, %p, %n, %t as in attach)");
  parser.flag("force,f", arguments.force, "replace FILE if it exists");
  parser.example("heapsnap run -- ./server --port 8080",
                 "then list the stacks: heapsnap stacks server");
  parser.example("heapsnap run --sample 512KiB --at-exit %n.hsnap -- python3 job.py",
                 "what is left at exit, with next to no overhead");
  StartedCommand::Options options;
  parser.command_line(options.arguments);
  if (!parser.parse(words)) return kExitDone;
  if (options.arguments.empty()) {
    throw Error(ErrorKind::kUsage, "run", "it needs a command",
                "for example: heapsnap run -- ls -l");
  }
  if (arguments.interpreter_frames && arguments.follow_children) {
    throw Error(ErrorKind::kUsage, "--interpreter-frames with --follow-children",
                "only COMMAND itself is told where its interpreter has its frames",
                "for a child: heapsnap inject --interpreter-frames PID");
  }
  if (announce_allocator(options.arguments.front())) {
    options.environment.emplace_back("LD_PRELOAD", preload_list(preloadable_tracker()));
  }
  options.environment.emplace_back("HEAPSNAP_FRAMES", std::to_string(arguments.frames));
  if (!arguments.sample.empty()) {
    options.environment.emplace_back("HEAPSNAP_SAMPLE",
                                     std::to_string(parse_byte_size("--sample", arguments.sample)));
  }
  if (const uint64_t limit = parse_memory_limit(arguments.memory_limit, arguments.frames)) {
    options.environment.emplace_back("HEAPSNAP_MEMORY_LIMIT", std::to_string(limit));
  }
  if (!arguments.follow_children) options.pid_variable = "HEAPSNAP_ONLY_PID";
  if (arguments.interpreter_frames) {
    options.environment.emplace_back("HEAPSNAP_INTERPRETER_FRAMES", "1");
  }
  options.hold_at_end = !arguments.at_exit.empty();
  if (options.hold_at_end) load_disassembler();  // what lacks is told before the program has run

  StartedCommand command(options);
  std::optional<InterpreterWatch> interpreter;
  if (arguments.interpreter_frames) interpreter.emplace(command.pid());
  std::optional<Error> missing;
  if (options.hold_at_end) {
    missing.emplace(ErrorKind::kNoProcess, "no snapshot at exit",
                    "the program ended before it could be stopped",
                    "this happens if SIGKILL arrives during its exit");
  }
  const int code = command.wait([&](ProgramEnd& end) {
    try {
      take_last_snapshot(end, arguments);
      missing.reset();
    } catch (const Error& error) {
      const Error told = explained(error);
      missing.emplace(told.kind(), "no snapshot at exit: " + told.subject(), told.why(),
                      told.remedy());
    }
  });
  interpreter.reset();
  if (!missing) return code;
  if (code == kExitDone) throw Error(*missing);
  // How the program ended is what it is asked for first, and is no success either.
  print_error(*missing);
  return code;
}

}  // namespace heapsnap
