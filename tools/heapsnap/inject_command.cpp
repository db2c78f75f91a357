#include <fmt/format.h>

#include "base/byte_size.h"
#include "base/error.h"
#include "report/number_text.h"
#include "report/terminal_text.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/injection_text.h"
#include "tools/heapsnap/memory_limit.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/target_argument.h"
#include "tools/inject/tracking.h"
#include "tools/tracker_image/tracker_image.h"

namespace heapsnap {

namespace {

constexpr const char* kInjectDescription =
    "Loads the tracker into a running process: from then on, it records the call stack of every\n"
    "allocation. If the tracker is already loaded, only its options change.\n"
    "\n"
    "What it does to the process: one thread is paused while a new thread is created beside it,\n"
    "which loads a library from memory and exits. Then all threads are paused while the entry\n"
    "points of malloc, free and the like are patched to jump to the library. inject prints how\n"
    "long each pause took: about a millisecond on an idle machine, more on a busy one. The "
    "library\n"
    "prints nothing, leaves no thread behind and opens no file. Its tables take an eighth of the\n"
    "heap in use plus some MiB; heapsnap eject frees them.";

std::string options_text(const tracker::Directory& directory) {
  const std::string what = directory.sample_bytes == 0
                               ? std::string("every allocation")
                               : "one allocation per " + size_text(directory.sample_bytes);
  const std::string frames =
      directory.max_frames >= tracker::kFramesAtMost
          ? std::string("complete stacks")
          : "stacks of up to " + count_text(directory.max_frames, "frame", "frames");
  const std::string limit = directory.memory_limit == 0
                                ? std::string()
                                : ", tables of at most " + size_text(directory.memory_limit);
  return fmt::format("{}, {}{}", what, frames, limit);
}

}  // namespace

int run_inject(const std::vector<std::string>& arguments) {
  std::string target;
  std::string sample;
  std::string memory_limit;
  uint64_t frames = tracker::kDefaultFrames;
  OptionParser parser("inject [options] PID|NAME|container:ID|pod:UID", kInjectDescription);
  parser.text("sample", sample, "BYTES",
              "record one allocation per BYTES on average, unbiased (default: all)");
  parser.number("frames", frames, "N",
                "innermost frames to keep per stack, 0: no limit (default: 64)");
  add_memory_limit(parser, memory_limit);
  parser.positional("PID", target);
  parser.example("heapsnap inject 4242", "then list the stacks: heapsnap stacks 4242");
  parser.example("heapsnap inject --sample 512KiB nginx", "by name, with next to no overhead");
  if (!parser.parse(arguments)) return kExitDone;
  if (target.empty()) {
    throw Error(ErrorKind::kUsage, "inject", "it needs one process",
                "give a PID, a name or a container: heapsnap inject 4242");
  }
  if (frames > tracker::kFramesAtMost) {
    throw Error(ErrorKind::kUsage, "--frames " + std::to_string(frames),
                "not more than " + std::to_string(tracker::kFramesAtMost));
  }
  TrackingOptions options;
  options.max_frames = static_cast<uint32_t>(frames);
  if (!sample.empty()) options.sample_bytes = parse_byte_size("--sample", sample);
  options.memory_limit = parse_memory_limit(memory_limit, frames);

  const int pid = resolve_target(target);
  const TrackingChange change = start_tracking(pid, tracker_image(), options);
  const char* const done = !change.was_loaded     ? "tracker loaded"
                           : change.was_recording ? "tracker already loaded: options changed"
                                                  : "tracker already loaded: enabled again";
  fmt::print("process {}: {}\n", pid, done);
  fmt::print("  records {}\n", options_text(*change.directory));
  std::vector<StolenTime> stolen = change.call.stolen;
  const std::vector<StolenTime>& makers = change.hooks.page_makers;
  stolen.insert(stolen.end(), makers.begin(), makers.end());
  fmt::print("  {}\n", stolen_text(stolen));
  fmt::print("  {}\n", change.is_preloaded ? std::string("preloaded: no hooks are needed")
                                           : hooks_text(change.hooks));
  print_notes(change.call.notes);
  print_notes(change.notes);
  print_what_next(
      "Let the program run for a while. To list what allocated the new blocks that remain:",
      fmt::format("heapsnap stacks {}", pid));
  return kExitDone;
}

}  // namespace heapsnap
