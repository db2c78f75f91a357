#include <fmt/format.h>

#include "base/error.h"
#include "report/tracked_start.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/injection_text.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/target_argument.h"
#include "tools/inject/tracking.h"
#include "tools/tracker_image/tracker_image.h"

namespace heapsnap {

namespace {

constexpr const char* kEjectDescription =
    "Disables the tracker in a running process: restores the original code at the entry points of\n"
    "the allocator and frees the tracker's tables. The records are lost; take a snapshot first to\n"
    "keep them. The library stays loaded but inactive, since a thread may still return into it;\n"
    "heapsnap inject enables it again.";

}  // namespace

int run_eject(const std::vector<std::string>& arguments) {
  std::string target;
  OptionParser parser("eject PID|NAME|container:ID|pod:UID", kEjectDescription);
  parser.positional("PID", target);
  parser.example("heapsnap eject 4242", "restore the original code of the allocator");
  if (!parser.parse(arguments)) return kExitDone;
  if (target.empty()) fail_without_one_target("eject");
  const int pid = resolve_target(target);
  const TrackingChange change = stop_tracking(pid, tracker_image());
  fmt::print("process {}: {}\n", pid,
             change.was_recording ? "tracker disabled" : "the tracker was already disabled");
  if (!change.is_preloaded) fmt::print("  {}\n", hooks_text(change.hooks));
  print_look_pauses(change.look_pauses);
  if (!change.call.stolen.empty()) fmt::print("  {}\n", stolen_text(change.call.stolen));
  print_notes(change.call.notes);
  print_notes(change.notes);
  if (change.is_heap_damaged) {
    print_what_next(
        {{"To see the heap, without a change to it:", fmt::format("heapsnap attach {}", pid)}});
  } else {
    const bool had_functions = change.directory && change.directory->takes_interpreter_frames != 0;
    std::vector<WhatNext> steps;
    if (had_functions) {
      steps.push_back({"To record call stacks with the interpreter's functions again, of samples:",
                       fmt::format("heapsnap inject {} {}", kWithFunctions, pid)});
    } else {
      steps.push_back({"To record call stacks again:", fmt::format("heapsnap inject {}", pid)});
      add_step_with_functions(steps, pid);
    }
    print_what_next(steps);
  }
  return kExitDone;
}

}  // namespace heapsnap
