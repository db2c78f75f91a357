#include "tools/heapsnap/any_snapshot.h"

#include <unistd.h>

#include <array>
#include <string_view>

#include "base/error.h"
#include "base/regular_file.h"
#include "tools/heapsnap/injection_text.h"
#include "tools/heapsnap/snapshot_argument.h"
#include "tools/heapsnap/stack_names.h"

namespace heapsnap {

namespace {

// A core, also one compressed with zstd, and not the program whose name a process has.
bool is_core(const std::string& path) {
  constexpr std::string_view kElf =
      "\x7f"
      "ELF";
  constexpr std::string_view kZstd = "\x28\xb5\x2f\xfd";
  constexpr size_t kTypeAt = 16;  // e_type, whose low byte is ET_CORE in either order of bytes
  constexpr char kCoreType = 4;
  // Opened so that it does not wait: trace_pipe of tracefs counts as a regular file.
  const UniqueFd file = open_regular(path);
  std::array<char, kTypeAt + 2> begin{};
  if (!file || ::read(file.get(), begin.data(), begin.size()) < 0) return false;
  const std::string_view text(begin.data(), begin.size());
  if (text.starts_with(kZstd)) return true;
  return text.starts_with(kElf) && begin[kTypeAt] + begin[kTypeAt + 1] == kCoreType;
}

}  // namespace

void add_source_options(OptionParser& parser, SnapshotSource& source) {
  parser.text("sysroot", source.sysroot, "DIR",
              "directory that holds the target's files, for names missing from the snapshot");
}

AnySnapshot::AnySnapshot(const std::string& command, const SnapshotSource& source,
                         WantedPasses passes)
    : debug_files_(stack_debug_files(source.sysroot, false)) {
  if (source.what.empty()) {
    throw Error(ErrorKind::kUsage, command, "it needs a snapshot, a process or a core",
                "for example: heapsnap " + command + " 4242");
  }
  if (is_core(source.what)) {
    core_ = source.what;
    own_.emplace(core_, source.sysroot, debug_files_, passes);
  } else {
    const SnapshotArgument argument = resolve_snapshot(source.what, "heapsnap " + command);
    print_notes(argument.notes);
    if (argument.is_file) {
      path_ = argument.path;
    } else {
      own_.emplace(argument.pid, debug_files_, passes);
    }
  }
  reader_.emplace(SnapshotReader::open(own_ ? own_->path() : path_));
}

}  // namespace heapsnap
