// Finds the separate debug file of a module, as gdb and elfutils do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "elf/elf_image.h"

namespace heapsnap {

class DebugFileSearch {
 public:
  struct Options {
    // Debug directories, each tried as given; where a sysroot is set, below it first.
    std::vector<std::string> directories = {"/usr/lib/debug"};
    std::string sysroot = {};
    // Look into the local debuginfod cache ($DEBUGINFOD_CACHE_PATH, or
    // $XDG_CACHE_HOME/debuginfod_client, or ~/.cache/debuginfod_client). Servers are asked only
    // when `ask_servers` is set too and DEBUGINFOD_URLS names some.
    bool debuginfod_cache = true;
    bool ask_servers = false;
  };

  DebugFileSearch() = default;
  explicit DebugFileSearch(Options options) : options_(std::move(options)) {}

  // The same on this machine only.
  DebugFileSearch without_servers() const {
    DebugFileSearch local(*this);
    local.options_.ask_servers = false;
    return local;
  }

  // `module_path`: where the target sees the module (its folder is searched for the debuglink).
  // Order: DIR/.build-id/ab/cdef.debug; debuglink beside the module, in .debug/ and in
  // DIR/<folder of module>/; DIR/<module_path> (Debian and Ubuntu before 2018); debuginfod. A file
  // is accepted only when it has symbols or DWARF, and its build-id is the module's or, where one
  // of both has none, its CRC that of the debuglink. Never throws: what cannot be read is not
  // found.
  std::optional<ElfImage> find(const ElfImage& module, const std::string& module_path) const;

 private:
  Options options_;
};

}  // namespace heapsnap
