#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analysis/heap_summary.h"
#include "base/error.h"
#include "report/number_text.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/injection_text.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/target_argument.h"
#include "tools/heapsnap/temporary_snapshot.h"
#include "tools/inject/trim.h"

namespace heapsnap {

namespace {

constexpr const char* kTrimDescription =
    "Makes a running process call malloc_trim(0), which gives free memory back to the kernel, and\n"
    "prints how much was given back, next to what a snapshot taken just before predicted.\n"
    "\n"
    "What it does to the process: one thread is paused while a new thread is created beside it,\n"
    "which makes the call and exits; nothing is left behind. trim prints the pause: about a\n"
    "millisecond on an idle machine, more on a busy one. The only thread of a\n"
    "process stays paused until the call has returned; of several, those that allocate from the\n"
    "arena being trimmed wait for it, as they would if the program made the call.";

// What a snapshot of now says would come back, and how long that paused the process.
struct Prediction {
  std::optional<uint64_t> bytes;
  uint64_t pause_ns = 0;
};

Prediction predict(int pid) {
  const TemporarySnapshot temporary(pid, DebugFileSearch());
  const SnapshotReader snapshot = SnapshotReader::open(temporary.path());
  const HeapSummary summary = summarize(snapshot);
  Prediction prediction;
  if (summary.pages_known) prediction.bytes = summary.trim.resident();
  const FreezeRecord& freeze = snapshot.metadata().freeze;
  prediction.pause_ns = freeze.pause_ns + freeze.reap_pause_ns;
  return prediction;
}

// What malloc_trim() returns tells that it gave up pages, be they in memory or not.
const char* effect_text(bool gave_up_pages, uint64_t given_back) {
  if (!gave_up_pages) return "malloc_trim(0) found no page to give back";
  if (given_back != 0) return "malloc_trim(0) gave back pages of free blocks";
  return "malloc_trim(0) gave back pages of free blocks, but anonymous memory did not shrink:\n"
         "  they were not resident, or the process used as many new pages meanwhile";
}

std::vector<WhatNext> next_steps(int pid, uint64_t given_back, uint64_t anonymous_after) {
  constexpr uint64_t kMuch = 1 << 20;
  std::vector<WhatNext> steps;
  if (given_back >= kMuch) {
    steps.push_back({"To see whether it grows back as the program goes on:",
                     fmt::format("heapsnap watch {} --count 10", pid)});
  }
  steps.push_back(
      {fmt::format("To see what the remaining {} is used for:", size_text(anonymous_after)),
       fmt::format("heapsnap attach {}", pid)});
  return steps;
}

}  // namespace

int run_trim(const std::vector<std::string>& arguments) {
  std::string target;
  bool no_estimate = false;
  OptionParser parser("trim [options] PID|NAME|container:ID|pod:UID", kTrimDescription);
  parser.flag("no-estimate", no_estimate, "do not take a snapshot first for the prediction");
  parser.positional("PID", target);
  parser.example("heapsnap trim 4242", "print its anonymous memory before and after");
  if (!parser.parse(arguments)) return kExitDone;
  if (target.empty()) fail_without_one_target("trim");
  const int pid = resolve_target(target);
  const Prediction predicted = no_estimate ? Prediction{} : predict(pid);
  const TrimResult result = trim_process(pid);
  const uint64_t given_back =
      result.anonymous_before - std::min(result.anonymous_before, result.anonymous_after);
  fmt::print("process {}: anonymous memory {} before, {} after:\n", pid,
             size_text(result.anonymous_before), size_text(result.anonymous_after));
  fmt::print("  {} given back{}\n", size_text(given_back),
             predicted.bytes ? ", " + size_text(*predicted.bytes) + " predicted" : "");
  fmt::print("  {}\n", effect_text(result.gave_up_pages, given_back));
  if (!no_estimate) {
    fmt::print("  all threads paused for {} for the prediction (--no-estimate does without)\n",
               duration_text(predicted.pause_ns));
  }
  print_look_pauses(result.look_pauses);
  fmt::print("  {}\n", stolen_text(result.call.stolen));
  print_notes(result.call.notes);
  print_what_next(next_steps(pid, given_back, result.anonymous_after));
  return kExitDone;
}

}  // namespace heapsnap
