#include "elf/debug_file_search.h"

#include <lzma.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "elf/debuginfod_client.h"

namespace heapsnap {

namespace {

// What a debug file must match.
struct Wanted {
  std::string build_id;         // empty: the module has none
  std::optional<uint32_t> crc;  // of the debuglink
  Machine machine = Machine::kX86_64;
};

// liblzma's CRC-32 is that of IEEE 802.3, as the debuglink has it.
uint32_t crc_of(std::span<const std::byte> bytes) {
  return lzma_crc32(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), 0);
}

bool fits(const ElfImage& candidate, const Wanted& wanted) {
  // A debuglink may name the stripped module itself.
  if (candidate.section(".symtab") == nullptr && candidate.section(".debug_info") == nullptr) {
    return false;
  }
  if (candidate.machine() != wanted.machine) return false;
  if (!wanted.build_id.empty() && !candidate.build_id().empty()) {
    return candidate.build_id() == wanted.build_id;
  }
  return wanted.crc && crc_of(candidate.file_bytes()) == *wanted.crc;
}

std::optional<ElfImage> accept(MappedFile file, const std::string& path, const Wanted& wanted) {
  try {
    auto candidate = ElfImage::from_file(std::move(file), path);
    if (fits(candidate, wanted)) return candidate;
  } catch (const Error&) {
    // Not an ELF file (debuginfod leaves empty ones for what no server had).
  }
  return std::nullopt;
}

// A path, and the root folder that it is looked up in; "": our own.
struct Place {
  std::string root;
  std::string path;
};

std::optional<ElfImage> accept_place(const Place& place, const Wanted& wanted) {
  try {
    return accept(MappedFile::open_in(place.root, place.path), place.root + place.path, wanted);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The folder and, on systems where /lib is a link to /usr/lib, its other name: debug files keep
// the one that the package was built with.
std::vector<std::string> both_names(const std::string& path) {
  constexpr std::string_view kUsr = "/usr";
  if (path.starts_with("/usr/")) return {path, path.substr(kUsr.size())};
  return {path, std::string(kUsr) + path};
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// debuginfod_find_debuginfo(3), "FILES".
std::vector<std::string> debuginfod_caches() {
  std::vector<std::string> caches;
  if (auto path = environment("DEBUGINFOD_CACHE_PATH"); !path.empty()) return {path};
  if (auto path = environment("XDG_CACHE_HOME"); !path.empty()) {
    caches.push_back(path + "/debuginfod_client");
  }
  if (auto home = environment("HOME"); !home.empty()) {
    caches.push_back(home + "/.cache/debuginfod_client");
    caches.push_back(home + "/.debuginfod_client_cache");
  }
  return caches;
}

}  // namespace

std::optional<ElfImage> DebugFileSearch::find(const ElfImage& module,
                                              const std::string& module_path) const {
  Wanted wanted{.build_id = module.build_id(), .crc = {}, .machine = module.machine()};
  auto link = module.debug_link();
  // A name with a folder in it, or of one, is none that a linker wrote.
  if (link && (link->file_name.find('/') != std::string::npos || link->file_name == "." ||
               link->file_name == "..")) {
    link.reset();
  }
  if (link) wanted.crc = link->crc;

  std::vector<Place> directories;
  for (const std::string& directory : options_.directories) {
    if (!options_.sysroot.empty()) directories.push_back({options_.sysroot, "/" + directory});
    directories.push_back({"", directory});
  }

  std::vector<Place> places;
  const auto add = [&places](const Place& directory, const std::string& file) {
    places.push_back({directory.root, directory.path + file});
  };
  if (wanted.build_id.size() > 2) {
    const std::string file =
        "/.build-id/" + wanted.build_id.substr(0, 2) + "/" + wanted.build_id.substr(2) + ".debug";
    for (const Place& directory : directories) add(directory, file);
  }
  if (link && module_path.starts_with('/')) {
    const std::string folder = module_path.substr(0, module_path.rfind('/') + 1);
    places.push_back({options_.sysroot, folder + link->file_name});
    places.push_back({options_.sysroot, folder + ".debug/" + link->file_name});
    for (const Place& directory : directories) {
      for (const std::string& name : both_names(folder)) add(directory, name + link->file_name);
    }
  }
  if (module_path.starts_with('/')) {
    for (const Place& directory : directories) {
      for (const std::string& name : both_names(module_path)) add(directory, name);
    }
  }
  if (options_.debuginfod_cache && !wanted.build_id.empty()) {
    for (const std::string& cache : debuginfod_caches()) {
      places.push_back({"", cache + "/" + wanted.build_id + "/debuginfo"});
    }
  }
  for (const Place& place : places) {
    if (auto found = accept_place(place, wanted)) return found;
  }

  if (options_.ask_servers && !wanted.build_id.empty() && !environment("DEBUGINFOD_URLS").empty()) {
    if (auto file = ask_debuginfod(wanted.build_id)) {
      return accept(std::move(*file), "debuginfod:" + wanted.build_id, wanted);
    }
  }
  return std::nullopt;
}

}  // namespace heapsnap
