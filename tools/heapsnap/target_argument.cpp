#include "tools/heapsnap/target_argument.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "platform/linux/proc_fs.h"

namespace heapsnap {

namespace {

std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

// A shell that runs `heapsnap attach bash` must not find itself.
std::set<int> own_ancestry(const ProcFs& proc) {
  std::set<int> ancestry;
  for (int pid = ::getpid(); pid > 0 && ancestry.insert(pid).second;) {
    const auto status = proc.status(pid);
    pid = status ? status->parent_pid : 0;
  }
  return ancestry;
}

}  // namespace

int resolve_target(const std::string& argument) {
  int pid = 0;
  const auto [end, error] =
      std::from_chars(argument.data(), argument.data() + argument.size(), pid);
  if (error == std::errc() && end == argument.data() + argument.size()) {
    if (pid > 0) return pid;
    throw Error(ErrorKind::kUsage, "PID " + argument, "a PID is a positive number");
  }
  if (argument.empty()) throw Error(ErrorKind::kUsage, "PID", "it is empty");

  const ProcFs proc;
  const std::set<int> ancestry = own_ancestry(proc);
  std::vector<int> matches;
  for (const int candidate : proc.pids()) {
    if (ancestry.contains(candidate)) continue;
    if (proc.comm(candidate) == argument || file_name(proc.exe(candidate)) == argument) {
      matches.push_back(candidate);
    }
  }
  if (matches.empty()) {
    throw Error(ErrorKind::kNoProcess, "process \"" + argument + "\"", "no process has this name",
                "list them with: ps -eo pid,comm,rss --sort=-rss");
  }
  if (matches.size() > 1) {
    std::string list;
    constexpr size_t kShown = 10;
    for (size_t i = 0; i < std::min(matches.size(), kShown); ++i) {
      list += (i == 0 ? "" : ", ") + std::to_string(matches[i]);
    }
    if (matches.size() > kShown) list += ", ...";
    throw Error(ErrorKind::kUsage, "process \"" + argument + "\"",
                std::to_string(matches.size()) + " processes have this name: " + list,
                "give one of the PIDs");
  }
  return matches.front();
}

}  // namespace heapsnap
