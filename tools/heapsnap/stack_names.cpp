#include "tools/heapsnap/stack_names.h"

#include "base/error.h"
#include "tracking/symbolizer.h"

namespace heapsnap {

DebugFileSearch stack_debug_files(const std::string& sysroot, bool ask_servers) {
  DebugFileSearch::Options search;
  search.sysroot = sysroot;
  search.ask_servers = ask_servers;
  return DebugFileSearch(search);
}

void add_missing_names(const SnapshotMetadata& metadata, RecordedStacks& recorded,
                       const DebugFileSearch& debug_files, const std::string& sysroot) {
  if (!recorded.symbols.is_empty() || !metadata.tracker) return;
  recorded.symbols =
      symbolize(recorded.stacks, metadata.tracker->modules, debug_files,
                [&sysroot](const TrackedModule& module) -> std::optional<MappedFile> {
                  if (module.build_id.empty() || !module.path.starts_with('/')) return std::nullopt;
                  try {
                    return MappedFile::open_in(sysroot, module.path);
                  } catch (const Error&) {
                    return std::nullopt;
                  }
                });
}

}  // namespace heapsnap
