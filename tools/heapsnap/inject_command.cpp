#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "base/byte_size.h"
#include "base/error.h"
#include "report/number_text.h"
#include "report/terminal_text.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/injection_text.h"
#include "tools/heapsnap/memory_limit.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/target_argument.h"
#include "tools/heapsnap/terminal.h"
#include "tools/heapsnap/watched_process.h"
#include "tools/inject/tracking.h"
#include "tools/tracker_image/tracker_image.h"

namespace heapsnap {

namespace {

constexpr const char* kInjectDescription =
    "Loads the tracker into a running process: from then on, it records the call stack of every\n"
    "allocation. If the tracker is already loaded, only its options change; what it has counted\n"
    "stays.\n"
    "\n"
    "What it does to the process: one thread is paused while a new thread is created beside it,\n"
    "which loads a library from memory and exits; the only thread of a process stays paused until\n"
    "then, for some milliseconds, or tens of them where the program has many libraries; where\n"
    "the machine is busy, 200 ms have been seen. After that, all threads are paused while the "
    "entry\n"
    "points of malloc, free and the like are patched to jump to the library. inject prints how\n"
    "long each pause took: about a millisecond on an idle machine, more on a busy one. The "
    "library\n"
    "prints nothing, leaves no thread behind and opens no file. Its tables take an eighth of the\n"
    "blocks that are allocated from then on, plus some MiB: inject prints how much that may "
    "become\n"
    "and what they take now. heapsnap eject frees them.";

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

// What malloc has from the system, free memory included; nothing where its counters cannot be read.
std::optional<uint64_t> malloc_bytes(int pid) {
  try {
    const WatchLook look = WatchedProcess(pid).look();
    if (look.malloc) return look.malloc->bytes();
  } catch (const Error&) {
    // The injection says what is wrong.
  }
  return std::nullopt;
}

// Slots have four bytes for 32 of the heap; the rest does not depend on its size.
std::string need_text(std::optional<uint64_t> bytes, const TrackingOptions& options) {
  constexpr uint64_t kSlotShare = 8;
  if (options.memory_limit != 0) {
    return fmt::format("the tracker's tables may take {} of memory",
                       size_text(options.memory_limit));
  }
  std::string text =
      "the tracker's tables will take some MiB, more with large libraries, and in addition an "
      "eighth of the memory of new blocks";
  if (bytes) {
    text += fmt::format(", which is {} once these take as much as malloc has now ({})",
                        size_text(*bytes / kSlotShare), size_text(*bytes));
  }
  return text;
}

}  // namespace

int run_inject(const std::vector<std::string>& arguments) {
  std::string target;
  std::string sample;
  std::string memory_limit;
  uint64_t frames = tracker::kDefaultFrames;
  TrackingOptions options;
  OptionParser parser("inject [options] PID|NAME|container:ID|pod:UID", kInjectDescription);
  parser.text("sample", sample, "BYTES",
              "record one allocation per BYTES on average, unbiased (default: all)");
  parser.number("frames", frames, "N",
                "innermost frames to keep per stack, 0: no limit (default: 64)");
  add_memory_limit(parser, memory_limit);
  parser.flag("interpreter-frames", options.interpreter_frames,
              "also record the functions of Python (3.11-3.13) and Ruby (3.1-3.4) that run");
  parser.positional("PID", target);
  parser.example("heapsnap inject 4242", "then list the stacks: heapsnap stacks 4242");
  parser.example("heapsnap inject --sample 512KiB nginx", "by name, with next to no overhead");
  if (!parser.parse(arguments)) return kExitDone;
  if (target.empty()) fail_without_one_target("inject");
  if (frames > tracker::kFramesAtMost) {
    throw Error(ErrorKind::kUsage, "--frames " + std::to_string(frames),
                "not more than " + std::to_string(tracker::kFramesAtMost));
  }
  options.max_frames = static_cast<uint32_t>(frames);
  if (!sample.empty()) options.sample_bytes = parse_byte_size("--sample", sample);
  options.memory_limit = parse_memory_limit(memory_limit, frames);

  const int pid = resolve_target(target);
  const std::string need =
      fmt::format("process {}: {}", pid, need_text(malloc_bytes(pid), options));
  for (const std::string& line : wrapped(need, terminal_width(STDOUT_FILENO))) {
    fmt::print("{}\n", line);
  }
  std::fflush(stdout);
  const TrackingChange change = start_tracking(pid, tracker_image(), options);
  const char* const done = !change.was_loaded      ? "tracker loaded"
                           : !change.was_recording ? "tracker already loaded: enabled again"
                           : change.has_new_options
                               ? "tracker already loaded: options changed"
                               : "tracker already loaded: it goes on as before";
  fmt::print("process {}: {}\n", pid, done);
  fmt::print("  records {}\n", options_text(*change.directory));
  if (!change.interpreter.empty()) {
    fmt::print("  with the frames of {}\n", printable(change.interpreter));
  }
  fmt::print("  its tables take {} now\n", size_text(change.directory->memory_used));
  std::vector<StolenTime> stolen = change.call.stolen;
  const std::vector<StolenTime>& makers = change.hooks.page_makers;
  stolen.insert(stolen.end(), makers.begin(), makers.end());
  print_look_pauses(change.look_pauses);
  fmt::print("  {}\n", stolen_text(stolen));
  fmt::print("  {}\n", change.is_preloaded ? std::string("preloaded: no hooks are needed")
                                           : hooks_text(change.hooks));
  print_notes(change.call.notes);
  print_notes(change.notes);
  std::vector<WhatNext> steps = {
      {"Let the program run for a while. To list what allocated the new blocks that remain:",
       fmt::format("heapsnap stacks {}", pid)}};
  if (!options.interpreter_frames) add_step_with_functions(steps, pid);
  print_what_next(steps);
  return kExitDone;
}

}  // namespace heapsnap
