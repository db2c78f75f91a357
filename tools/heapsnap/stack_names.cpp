#include "tools/heapsnap/stack_names.h"

#include <set>
#include <utility>

#include "base/error.h"
#include "tracking/symbolizer.h"

namespace heapsnap {

namespace {

// The build-ids of modules with code in `recorded` that has no name.
std::set<std::string> modules_without_names(const RecordedStacks& recorded,
                                            const std::vector<TrackedModule>& modules) {
  std::set<std::string> unnamed;
  for (const CallNode& node : recorded.stacks.nodes) {
    if (node.module < 0 || static_cast<size_t>(node.module) >= modules.size()) continue;
    const auto frames = recorded.symbols.at(node.module, node.return_address);
    if (is_named(recorded.symbols, frames)) continue;
    const std::string& build_id = modules[static_cast<size_t>(node.module)].build_id;
    if (!build_id.empty()) unnamed.insert(build_id);
  }
  return unnamed;
}

bool has_debug_file(MappedFile file, const TrackedModule& module,
                    const DebugFileSearch& debug_files) {
  const ElfImage image = ElfImage::from_file(std::move(file), module.path);
  return image.build_id() == module.build_id && debug_files.find(image, module.path);
}

}  // namespace

DebugFileSearch stack_debug_files(const std::string& sysroot, bool ask_servers) {
  DebugFileSearch::Options search;
  search.sysroot = sysroot;
  search.ask_servers = ask_servers;
  return DebugFileSearch(search);
}

void add_missing_names(const SnapshotMetadata& metadata, RecordedStacks& recorded,
                       const DebugFileSearch& debug_files, const std::string& sysroot) {
  if (!metadata.tracker) return;
  const std::vector<TrackedModule>& modules = metadata.tracker->modules;
  const std::set<std::string> unnamed = modules_without_names(recorded, modules);
  if (unnamed.empty()) return;
  const bool has_names = !recorded.symbols.is_empty();
  const SourceFrames found =
      symbolize(recorded.stacks, modules, debug_files,
                [&](const TrackedModule& module) -> std::optional<MappedFile> {
                  if (!module.path.starts_with('/') || !unnamed.contains(module.build_id)) {
                    return std::nullopt;
                  }
                  try {
                    // What the module itself tells is in the snapshot already.
                    if (has_names && !has_debug_file(MappedFile::open_in(sysroot, module.path),
                                                     module, debug_files)) {
                      return std::nullopt;
                    }
                    return MappedFile::open_in(sysroot, module.path);
                  } catch (const Error&) {
                    return std::nullopt;
                  }
                });
  recorded.symbols = with_names_of(recorded.symbols, found);
}

}  // namespace heapsnap
