// A snapshot as the commands that explain memory take it: a file, or one taken of a process or a
// core for this one command.
#pragma once

#include <optional>
#include <string>

#include "elf/debug_file_search.h"
#include "snapshot/snapshot_reader.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/temporary_snapshot.h"

namespace heapsnap {

struct SnapshotSource {
  std::string what;  // a snapshot, a core, or whatever names a process
  std::string sysroot;
};

void add_source_options(OptionParser& parser, SnapshotSource& source);

class AnySnapshot {
 public:
  // Throws Error{kUsage} when `command` was given nothing, and as the capture does. `passes`: what
  // one that is taken has besides the heap.
  AnySnapshot(const std::string& command, const SnapshotSource& source, WantedPasses passes);

  const SnapshotReader& reader() const { return *reader_; }
  const std::string& path() const { return path_; }  // empty: a temporary one
  const std::string& core() const { return core_; }  // of a temporary one; empty: of a process
  const DebugFileSearch& debug_files() const { return debug_files_; }

 private:
  DebugFileSearch debug_files_;
  std::optional<TemporarySnapshot> own_;
  std::string path_;
  std::string core_;
  std::optional<SnapshotReader> reader_;
};

}  // namespace heapsnap
