#include "report/garbage_text.h"

#include <fmt/format.h>

namespace heapsnap {

namespace {

// What starts a full collection. Both do so also where the collector is disabled. That of Python
// frees nothing that is counted more often than the others of the garbage lead to it.
const char* full_collection_of(RuntimeKind kind) {
  switch (kind) {
    case RuntimeKind::kPython: return "gc.collect(); what that leaves is leaked by C code";
    case RuntimeKind::kRuby: return "GC.start";
    default: return nullptr;
  }
}

}  // namespace

std::string garbage_text(const RuntimeModel& runtimes, const Tally& garbage, const Tally& in_use) {
  std::string text = "objects that no root leads to, freed by the next full garbage collection";
  if (garbage.bytes < in_use.bytes / 10) return text;
  std::string calls;
  for (const Runtime& runtime : runtimes.runtimes) {
    const char* const call = full_collection_of(runtime.kind);
    if (call == nullptr || !runtime.why_not.empty()) continue;
    calls += fmt::format("{}in {}: {}", calls.empty() ? "" : "; ", name_of(runtime.kind), call);
  }
  return calls.empty() ? text : text + " (" + calls + ")";
}

}  // namespace heapsnap
