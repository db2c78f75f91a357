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
    // Debug directories, each tried as given; the sysroot is put before them where one is set.
    std::vector<std::string> directories = {"/usr/lib/debug"};
    std::string sysroot;
    // Look into the local debuginfod cache ($DEBUGINFOD_CACHE_PATH,
    // $XDG_CACHE_HOME/debuginfod_client,
    // ~/.cache/debuginfod_client). Servers are asked only when `ask_servers` is set too and
    // DEBUGINFOD_URLS names some.
    bool debuginfod_cache = true;
    bool ask_servers = false;
  };

  DebugFileSearch() = default;
  explicit DebugFileSearch(Options options) : options_(std::move(options)) {}

  // `module_path`: where the target sees the module (its folder is searched for the debuglink).
  // Order: DIR/.build-id/ab/cdef.debug; debuglink beside the module, in .debug/ and in
  // DIR/<folder of module>/ with its CRC checked; DIR/<module_path> (Debian and Ubuntu before
  // 2018); debuginfod. Every file found is accepted only when its build-id (or CRC) is the
  // module's.
  std::optional<ElfImage> find(const ElfImage& module, const std::string& module_path) const;

 private:
  Options options_;
};

}  // namespace heapsnap
