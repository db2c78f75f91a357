#include "tools/heapsnap/injection_text.h"

#include <fmt/format.h>

#include "report/number_text.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

std::string duration(std::chrono::nanoseconds time) {
  return duration_text(static_cast<uint64_t>(time.count()));
}

}  // namespace

std::string stolen_text(const std::vector<StolenTime>& stolen) {
  std::string text;
  for (const StolenTime& each : stolen) {
    text += fmt::format("{}thread {} {}for {}", text.empty() ? "" : ", ", each.tid,
                        text.empty() ? "paused " : "", duration(each.duration));
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

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "note: {}\n", printable(note));
}

}  // namespace heapsnap
