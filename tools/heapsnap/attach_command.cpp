#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/clock.h"
#include "base/error.h"
#include "platform/linux/freeze/running_process.h"
#include "platform/linux/proc/blocking_call.h"
#include "tools/heapsnap/attach_via_ruby.h"
#include "tools/heapsnap/capture_options.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/target_argument.h"

namespace heapsnap {

namespace {

constexpr const char* kAttachDescription =
    "Writes a snapshot of a running process and accounts for its memory. The process needs no\n"
    "preparation and no debug symbols. It goes by its PID, by its name if no other has the same,\n"
    "or as the main process of a container or Kubernetes pod, by the first 12 digits or more of "
    "the\n"
    "container's id or the pod's UID.\n"
    "\n"
    "What it does to the process: all threads are paused for milliseconds while it is forked (its\n"
    "page tables are copied, its memory is not). heapsnap reads the fork and kills it before it\n"
    "exits. It writes no code into the process, sends it no signal, and leaves no file descriptor\n"
    "or mapping behind. While the fork exists, the first write to a page copies that page.\n"
    "\n"
    "With --via ruby a Ruby process writes its objects itself, by ObjectSpace.dump_all, as lines "
    "of\n"
    "JSON: where heapsnap does not know the version of Ruby, or where only Ruby's own code knows\n"
    "what an object refers to. That runs code in the process: a thread is created in it and hands "
    "a\n"
    "job to Ruby, a thread of Ruby's forks, and the child writes. Hooks that the program has on\n"
    "fork run, and SIGVTALRM and SIGCHLD wake threads that wait. A handler of the program's for\n"
    "SIGCHLD runs, too: one that waits for a child without WNOHANG may block the program, or end\n"
    "it by Errno::ECHILD. The thread of Ruby's, which is named eval:1, may be there for some\n"
    "seconds more: Ruby keeps ended threads for the next ones that the program makes. When "
    "heapsnap\n"
    "is killed, the child ends within half a minute.";

// A day, in ms: more could overflow what is computed with it.
constexpr uint64_t kLongestDeadline = 86'400'000;
constexpr uint64_t kUsualDeadline = 2000;
constexpr const char* kUsualFreeze = "auto";

FreezeChoice parse_freeze_choice(const std::string& text) {
  check_choice("--freeze", text, {"auto", "fork", "stop", "none"});
  if (text == "fork") return FreezeChoice::kFork;
  if (text == "stop") return FreezeChoice::kStop;
  return text == "none" ? FreezeChoice::kNone : FreezeChoice::kAuto;
}

// For a parent that has to name its child as tracer first (prctl PR_SET_PTRACER). A byte will do: a
// process that inherited the other end may keep it open.
void wait_for_input() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace

int run_attach(const std::vector<std::string>& arguments) {
  CaptureArguments capture;
  std::string target;
  std::string target_option;
  std::string freeze = kUsualFreeze;
  uint64_t deadline_ms = kUsualDeadline;
  bool start_at_eof = false;
  std::string via;
  OptionParser parser("attach [options] PID|NAME|container:ID|pod:UID", kAttachDescription);
  parser.text("pid,p", target_option, "PID", "PID, unique name, container or pod of the process");
  parser.text("freeze", freeze, "HOW",
              "fork: read a copy-on-write fork; stop: read while all threads are stopped; none: "
              "read while it runs; auto: fork or stop, whichever pauses it less (default)");
  parser.number("deadline", deadline_ms, "MS",
                "give up if the threads cannot be stopped, or a piece of memory cannot be read, "
                "within this time (default: 2000)");
  add_capture_options(parser, capture);
  parser.text("via", via, "RUNTIME", "ruby: let the process write its objects itself (see above)");
  parser.flag("start-at-eof", start_at_eof, "first wait for a byte or the end of standard input");
  parser.positional("PID", target);
  parser.example("heapsnap attach 4242", "write a snapshot of PID 4242 here, and summarize it");
  parser.example("heapsnap attach nginx -o /var/tmp/%n-%p-%t.hsnap",
                 "by name, to a file of your choice");
  parser.example("heapsnap attach container:3f2a8c91d0b4", "the main process of that container");
  parser.example("heapsnap attach --via ruby 4242 -o objects.json",
                 "let a Ruby process write its objects itself, for heapy");
  parser.example("heapsnap attach 4242 -q -o - | ssh host 'cat > a.hsnap'",
                 "write the snapshot to another machine");
  if (!parser.parse(arguments)) return kExitDone;
  if (target.empty() == target_option.empty()) fail_without_one_target("attach");
  if (!via.empty()) {
    check_choice("--via", via, {"ruby"});
    if (freeze != kUsualFreeze || deadline_ms != kUsualDeadline) {
      throw Error(ErrorKind::kUsage, "attach --via ruby with --freeze or --deadline",
                  "the process writes its objects itself and is not read",
                  "leave these out, or --via ruby for a snapshot");
    }
    if (start_at_eof) wait_for_input();
    return attach_via_ruby(resolve_target(target.empty() ? target_option : target), capture);
  }
  FreezeOptions freeze_options;
  freeze_options.choice = parse_freeze_choice(freeze);
  freeze_options.deadline = std::chrono::milliseconds(std::min(deadline_ms, kLongestDeadline));
  set_call_patience(freeze_options.deadline);
  if (start_at_eof) wait_for_input();

  const int pid = resolve_target(target.empty() ? target_option : target);
  CaptureOptions options =
      to_capture_options(capture, open_running_process(pid)->process(), realtime_ns());
  CaptureResult result;
  {
    const CaptureProgress progress(options, capture.quiet);
    result = capture_alone(pid, freeze_options, options);
  }
  return announce_capture(result, options, capture);
}

}  // namespace heapsnap
