#include <fmt/format.h>

#include "base/error.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/injection_text.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/target_argument.h"
#include "tools/inject/tracking.h"
#include "tools/tracker_image/tracker_image.h"

namespace heapsnap {

namespace {

constexpr const char* kDescription =
    "Takes the tracker of a running process out of action: the entry points of the allocator get\n"
    "their own bytes back, and the memory of the tables goes back to the system. What was "
    "recorded\n"
    "is gone; take a snapshot first to keep it. The library stays loaded, asleep, since nobody "
    "can\n"
    "know that no thread will return into it; inject wakes it.";

}  // namespace

int run_eject(const std::vector<std::string>& arguments) {
  std::string target;
  OptionParser parser("eject PID|NAME", kDescription);
  parser.positional("PID", target);
  parser.example("heapsnap eject 4242", "no trace of the tracker is left in any code");
  if (!parser.parse(arguments)) return kExitDone;
  if (target.empty()) {
    throw Error(ErrorKind::kUsage, "eject", "it takes one process",
                "give a PID or a name: heapsnap eject 4242");
  }
  const int pid = resolve_target(target);
  const TrackingChange change = stop_tracking(pid, tracker_image());
  fmt::print("process {}: {}\n", pid,
             change.was_recording ? "the tracker was stopped" : "the tracker was asleep already");
  if (!change.is_preloaded) fmt::print("  {}\n", hooks_text(change.hooks));
  if (!change.call.stolen.empty()) fmt::print("  {}\n", stolen_text(change.call.stolen));
  print_notes(change.call.notes);
  print_notes(change.notes);
  return kExitDone;
}

}  // namespace heapsnap
