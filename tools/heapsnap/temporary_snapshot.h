// A snapshot for one command's own use: taken of a process, read, and gone with the command.
#pragma once

#include <string>

#include "base/alteration.h"
#include "elf/debug_file_search.h"

namespace heapsnap {

// What it needs besides the heap: what takes longest is left out where nobody asks.
enum class WantedPasses { kNone, kReferences, kRuntimes };

class TemporarySnapshot {
 public:
  // Captures `pid` into a folder of its own below $TMPDIR (mode 0700). Throws as capture_process().
  TemporarySnapshot(int pid, const DebugFileSearch& debug_files,
                    WantedPasses passes = WantedPasses::kNone);
  // Of a core file. Throws as open_core() and capture_core().
  TemporarySnapshot(const std::string& core_path, const std::string& sysroot,
                    const DebugFileSearch& debug_files, WantedPasses passes);
  TemporarySnapshot(const TemporarySnapshot&) = delete;
  TemporarySnapshot& operator=(const TemporarySnapshot&) = delete;
  ~TemporarySnapshot();

  const std::string& path() const { return path_; }

 private:
  void make_folder();

  Alteration alteration_;  // gone after the folder is
  std::string folder_;
  std::string path_;
};

}  // namespace heapsnap
