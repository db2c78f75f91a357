#include "tools/heapsnap/stack_names.h"

#include <algorithm>
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

// Those of an interpreter's frames are there always.
bool has_native_names(const SourceFrames& symbols) {
  return std::any_of(symbols.places().begin(), symbols.places().end(),
                     [](const SourceFrames::Place& place) {
                       return !is_interpreted(place.module, place.return_address);
                     });
}

std::optional<MappedFile> open_module_file(const std::string& sysroot,
                                           const TrackedModule& module) {
  if (!module.path.starts_with('/')) return std::nullopt;
  try {
    return MappedFile::open_in(sysroot, module.path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool has_debug_file(const TrackedModule& module, const DebugFileSearch& debug_files,
                    const std::string& sysroot) {
  auto file = open_module_file(sysroot, module);
  if (!file) return false;
  try {
    const ElfImage image = ElfImage::from_file(*std::move(file), module.path);
    return image.build_id() == module.build_id && debug_files.find(image, module.path);
  } catch (const Error&) {
    return false;  // not an ELF file
  }
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
  std::set<std::string> wanted = modules_without_names(recorded, modules);
  // What the modules themselves tell is in a snapshot that has names.
  if (has_native_names(recorded.symbols)) {
    const std::set<std::string> unnamed = std::exchange(wanted, {});
    for (const TrackedModule& module : modules) {
      if (unnamed.contains(module.build_id) && has_debug_file(module, debug_files, sysroot)) {
        wanted.insert(module.build_id);
      }
    }
  }
  if (wanted.empty()) return;
  const SourceFrames found =
      symbolize(recorded.stacks, modules, debug_files,
                [&](const TrackedModule& module) -> std::optional<MappedFile> {
                  if (!wanted.contains(module.build_id)) return std::nullopt;
                  return open_module_file(sysroot, module);
                });
  recorded.symbols = with_names_of(recorded.symbols, found);
}

}  // namespace heapsnap
