#include "tools/heapsnap/snapshot_argument.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/free_name.h"
#include "platform/linux/proc/named_processes.h"
#include "report/shell_word.h"
#include "report/terminal_text.h"
#include "snapshot/format.h"
#include "tools/heapsnap/container_argument.h"
#include "tools/heapsnap/target_argument.h"

namespace heapsnap {

namespace {

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool is_snapshot(const std::string& path) {
  if (!is_file(path)) return false;
  std::string begin(format::kFileMagic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return file && begin == format::kFileMagic;
}

bool is_pid(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(),
                                      [](char letter) { return letter >= '0' && letter <= '9'; });
}

std::string file_word(const std::string& name) {
  return shell_word("./" + name, "./FILE");
}

SnapshotArgument process(const std::string& word) {
  SnapshotArgument found;
  found.pid = resolve_target(word);
  return found;
}

SnapshotArgument file(const std::string& path) {
  SnapshotArgument found;
  found.is_file = true;
  found.path = path;
  return found;
}

// "4242", "4242, 4243"
std::string list_of(const std::vector<int>& pids) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(pids.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(pids[i]);
  }
  return text + (pids.size() > kShown ? ", ..." : "");
}

SnapshotArgument named(const std::string& name, const std::string& command) {
  if (is_snapshot(name)) {
    SnapshotArgument found = file(name);
    const std::vector<int> processes = processes_named(name);
    if (!processes.empty()) {
      found.notes.push_back("this is the snapshot " + file_word(name) + "; of the " +
                            (processes.size() == 1 ? "process" : "processes") +
                            " of that name: " + command + " " + list_of(processes));
    }
    return found;
  }
  try {
    return process(name);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoProcess || !is_file(name)) throw;
    throw Error(error.kind(), error.subject(),
                error.why() + ", and the file of this name is no snapshot", kListProcesses);
  }
}

// The process that a word without a file must mean; 0: none.
int meant_process(const std::string& word) {
  std::error_code ignored;
  const bool is_path = word.find('/') != std::string::npos || word.ends_with(".hsnap");
  if (word.empty() || is_path || std::filesystem::exists(word, ignored)) return 0;
  try {
    return resolve_target(word);
  } catch (const Error&) {
    return 0;
  }
}

[[noreturn]] void refuse_process(const std::string& argument, int pid, const std::string& command) {
  throw Error(ErrorKind::kUsage, printable(argument),
              "that is a process, and " + command + " reads snapshots",
              "take one: heapsnap attach --references yes " + std::to_string(pid) + " -o " +
                  free_file_name("a.hsnap"));
}

}  // namespace

SnapshotReader open_snapshot(const std::string& argument, const std::string& command) {
  if (const int pid = meant_process(argument); pid != 0) refuse_process(argument, pid, command);
  return SnapshotReader::open(argument);
}

SnapshotArgument resolve_snapshot(const std::string& argument, const std::string& command) {
  if (is_pid(argument)) {
    SnapshotArgument found = process(argument);
    if (is_snapshot(argument)) {
      found.notes.push_back("this is process " + argument + "; of the snapshot of that name: " +
                            command + " " + file_word(argument));
    }
    return found;
  }
  if (argument.empty() || parse_container_argument(argument)) return process(argument);
  if (argument.find('/') != std::string::npos || argument.ends_with(".hsnap")) {
    return file(argument);
  }
  return named(argument, command);
}

}  // namespace heapsnap
