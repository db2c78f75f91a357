#include "tools/heapsnap/explained_snapshot.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "report/reference_labels.h"
#include "report/shell_word.h"
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
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::array<char, kTypeAt + 2> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  const std::string_view text(begin.data(), begin.size());
  if (text.starts_with(kZstd)) return true;
  return text.starts_with(kElf) && begin[kTypeAt] + begin[kTypeAt + 1] == kCoreType;
}

// Why a snapshot says nothing about what keeps blocks alive, and how to take one that does.
[[noreturn]] void fail_without_references(const SnapshotMetadata& metadata,
                                          const std::string& what) {
  const std::string why = metadata.references && !metadata.references->why_not.empty()
                              ? metadata.references->why_not
                              : "it was taken without them";
  const bool is_core = metadata.freeze.method == FreezeMethod::kCore;
  throw Error(ErrorKind::kUnsupported, what + " has no references between blocks", why,
              (is_core ? "take it again from the core: " : "while the process runs: ") +
                  with_references_command(metadata));
}

}  // namespace

void add_explain_options(OptionParser& parser, ExplainArguments& arguments) {
  parser.text("sysroot", arguments.sysroot, "DIR",
              "directory that holds the target's files, for names missing from the snapshot");
}

void require_references(const SnapshotReader& snapshot, const std::string& what) {
  if (!snapshot.has_references()) fail_without_references(snapshot.metadata(), what);
}

ExplainedSnapshot::ExplainedSnapshot(const std::string& command,
                                     const ExplainArguments& arguments) {
  if (arguments.what.empty()) {
    throw Error(ErrorKind::kUsage, command, "it needs a snapshot, a process or a core",
                "for example: heapsnap " + command + " 4242");
  }
  const DebugFileSearch debug_files = stack_debug_files(arguments.sysroot, false);
  if (is_core(arguments.what)) {
    own_.emplace(arguments.what, arguments.sysroot, debug_files);
  } else {
    const SnapshotArgument source = resolve_snapshot(arguments.what, "heapsnap " + command);
    print_notes(source.notes);
    if (source.is_file) {
      path_ = source.path;
    } else {
      own_.emplace(source.pid, debug_files, WantedReferences::kAlways);
    }
  }
  reader_.emplace(SnapshotReader::open(own_ ? own_->path() : path_));
  require_references(reader(), arguments.what);
  references_ = references_of(reader());
  if (metadata().tracker) {
    recorded_ = reader().read_call_stacks();
    add_missing_names(metadata(), recorded_, debug_files, arguments.sysroot);
  }
}

ReferenceReportInput ExplainedSnapshot::report_input() const {
  return {metadata(), references_, recorded_, path_};
}

}  // namespace heapsnap
