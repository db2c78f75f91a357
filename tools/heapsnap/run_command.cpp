#include "tools/heapsnap/run_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/error.h"
#include "platform/linux/frozen_process.h"
#include "platform/linux/started_command.h"
#include "report/terminal_text.h"
#include "tools/capture/capture.h"
#include "tools/heapsnap/byte_size.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/output_name.h"
#include "tools/tracker_image/tracker_image.h"
#include "tracker/table_layout.h"

namespace heapsnap {

namespace {

constexpr const char* kDescription =
    "Starts COMMAND with the tracker in it, so that each block of its heap knows the call stack "
    "that\n"
    "allocated it: heapsnap stacks, attach, core and watch can tell then. Ends as COMMAND does, "
    "with\n"
    "its exit code; signals are passed on.\n"
    "\n"
    "What it does to COMMAND: LD_PRELOAD names the tracker, which keeps tables in memory and does\n"
    "nothing else. Programs that are linked statically or run with more privileges take no "
    "notice.\n"
    "With --at-exit it is traced, which keeps debuggers and heapsnap attach from it.";

struct Arguments {
  std::string sample;
  std::string memory_limit;
  std::string at_exit;
  uint64_t frames = tracker::kDefaultFrames;
  bool follow_children = false;
  bool force = false;
};

std::string preload_list(const std::string& tracker) {
  const char* const others = std::getenv("LD_PRELOAD");
  return others == nullptr || *others == '\0' ? tracker : tracker + ":" + others;
}

// The program cannot have the descriptor; that of this process lives as long as the program is
// waited for.
std::string tracker_path(const UniqueFd& image) {
  return fmt::format("/{}/{}/fd/{}", "proc", ::getpid(), image.get());
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void take_last_snapshot(int pid, const Arguments& arguments) {
  CaptureOptions options;
  options.output.overwrite = arguments.force;
  FreezeOptions freeze;
  freeze.choice = FreezeChoice::kNone;  // it stands still already
  try {
    options.output.path =
        expand_output_name(arguments.at_exit, open_running_process(pid)->process(), now_ns());
    capture_process(pid, freeze, options);
  } catch (const Error& error) {
    // The program has ended; how it did is what counts.
    fmt::print(stderr, "heapsnap: no snapshot at exit: {}\n  why: {}\n", printable(error.subject()),
               printable(error.why()));
  }
}

}  // namespace

int run_run(const std::vector<std::string>& words) {
  Arguments arguments;
  OptionParser parser("run [options] -- COMMAND [ARGUMENTS]", kDescription);
  parser.text("sample", arguments.sample, "BYTES",
              "record one allocation each so many bytes on average, unbiased (default: all)");
  parser.number("frames", arguments.frames, "N",
                "innermost frames kept of a stack, 0: no limit (default: 64)");
  parser.text("memory-limit", arguments.memory_limit, "BYTES",
              "what the tracker's tables may take (default: no limit)");
  parser.flag("follow-children", arguments.follow_children,
              "track the programs that COMMAND starts, too");
  parser.text("at-exit", arguments.at_exit, "FILE",
              "write a snapshot when COMMAND ends, also by a signal (%h, %p, %n, %t as in attach)");
  parser.flag("force,f", arguments.force, "replace FILE if it exists");
  parser.example("heapsnap run -- ./server --port 8080", "then: heapsnap stacks server");
  parser.example("heapsnap run --sample 512KiB --at-exit %n.hsnap -- python3 job.py",
                 "what lived at the end, at next to no cost");
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (!parser.parse({words.begin(), dashes})) return kExitDone;
  StartedCommand::Options options;
  if (dashes != words.end()) options.arguments.assign(dashes + 1, words.end());
  if (options.arguments.empty()) {
    throw Error(ErrorKind::kUsage, "heapsnap run", "it takes a command, behind two dashes",
                "for example: heapsnap run -- ls -l");
  }
  const UniqueFd image = open_tracker_image();
  options.environment.emplace_back("LD_PRELOAD", preload_list(tracker_path(image)));
  options.environment.emplace_back("HEAPSNAP_FRAMES", std::to_string(arguments.frames));
  if (!arguments.sample.empty()) {
    options.environment.emplace_back("HEAPSNAP_SAMPLE",
                                     std::to_string(parse_byte_size("--sample", arguments.sample)));
  }
  if (!arguments.memory_limit.empty()) {
    options.environment.emplace_back(
        "HEAPSNAP_MEMORY_LIMIT",
        std::to_string(parse_byte_size("--memory-limit", arguments.memory_limit)));
  }
  if (!arguments.follow_children) options.pid_variable = "HEAPSNAP_ONLY_PID";
  options.stop_at_exit = !arguments.at_exit.empty();

  StartedCommand command(options);
  return command.wait([&] { take_last_snapshot(command.pid(), arguments); });
}

}  // namespace heapsnap
