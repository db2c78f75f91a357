#include "tools/heapsnap/injection_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "analysis/language_runtime.h"
#include "base/error.h"
#include "platform/linux/proc/proc_fs.h"
#include "report/number_text.h"
#include "report/terminal_text.h"
#include "report/tracked_start.h"
#include "tools/heapsnap/error_output.h"
#include "tools/heapsnap/terminal.h"

namespace heapsnap {

namespace {

std::string duration(std::chrono::nanoseconds time) {
  return duration_text(static_cast<uint64_t>(time.count()));
}

std::optional<Language> language_of(int pid) {
  try {
    return recordable_language(ProcFs().maps(pid));
  } catch (const Error&) {
    return std::nullopt;  // it has just ended
  }
}

}  // namespace

void add_step_with_functions(std::vector<WhatNext>& steps, int pid) {
  const auto language = language_of(pid);
  if (!language) return;
  steps.push_back(
      {fmt::format("These stacks name functions of the interpreter. To record {}'s, too, of "
                   "samples, as they cost several times what stacks alone do:",
                   *language == Language::kPython ? "Python" : "Ruby"),
       fmt::format("heapsnap inject {} {}", kWithFunctions, pid)});
}

std::string stolen_text(const std::vector<StolenTime>& stolen) {
  struct Pauses {
    int tid = 0;
    uint64_t count = 0;
    std::chrono::nanoseconds longest{0};
  };
  std::vector<Pauses> threads;  // in the order of their first pause
  for (const StolenTime& each : stolen) {
    auto thread = std::find_if(threads.begin(), threads.end(),
                               [&](const Pauses& one) { return one.tid == each.tid; });
    if (thread == threads.end()) thread = threads.insert(threads.end(), Pauses{.tid = each.tid});
    ++thread->count;
    thread->longest = std::max(thread->longest, std::chrono::nanoseconds(each.duration));
  }
  std::string text;
  for (const Pauses& one : threads) {
    const std::string longest = duration(one.longest);
    text += fmt::format("{}thread {} paused ", text.empty() ? "" : ", ", one.tid);
    text += one.count == 1
                ? "for " + longest
                : fmt::format("{}, {} at most", count_text(one.count, "time", "times"), longest);
  }
  return text;
}

std::string hooks_text(const HookChange& change) {
  if (change.entry_points == 0) return "no entry point of the allocator had to be patched";
  return fmt::format("{} of the allocator patched, {} paused for {}",
                     count_text(change.entry_points, "entry point", "entry points"),
                     count_text(change.patch.threads, "thread", "threads"),
                     duration(change.patch.pause));
}

void print_what_next(const std::vector<WhatNext>& steps) {
  fmt::print("\nWhat next\n");
  for (const WhatNext& step : steps) {
    for (const std::string& line : wrapped(step.why, terminal_width(STDOUT_FILENO) - 2)) {
      fmt::print("  {}\n", line);
    }
    fmt::print("    {}\n", step.command);
  }
}

void print_look_pauses(const std::vector<LookPause>& pauses) {
  for (const LookPause& pause : pauses) {
    fmt::print("  {} paused for {} to check malloc's state\n",
               count_text(pause.threads, "thread", "threads"), duration(pause.duration));
  }
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) print_notice(fmt::format("note: {}\n", printable(note)));
}

}  // namespace heapsnap
