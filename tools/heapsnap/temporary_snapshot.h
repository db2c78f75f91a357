// A snapshot for one command's own use: taken of a process, read, and gone with the command,
// however that ends, since its file has no name.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "elf/debug_file_search.h"

namespace heapsnap {

// What it needs besides the heap: what takes longest is left out where nobody asks.
enum class WantedPasses {
  kNone,
  kReferences,  // with those of the runtimes' objects, as `heapsnap attach --references yes`
  kRuntimes
};

class TemporarySnapshot {
 public:
  // Captures `pid` into a file in $TMPDIR. Throws as capture_process().
  TemporarySnapshot(int pid, const DebugFileSearch& debug_files,
                    WantedPasses passes = WantedPasses::kNone);
  // Of a core file. Throws as open_core() and capture_core().
  TemporarySnapshot(const std::string& core_path, const std::string& sysroot,
                    const DebugFileSearch& debug_files, WantedPasses passes);

  // Of this process only.
  std::string path() const;

 private:
  UniqueFd file_;
};

}  // namespace heapsnap
