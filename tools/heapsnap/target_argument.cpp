#include "tools/heapsnap/target_argument.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.h"
#include "platform/linux/proc/named_processes.h"
#include "tools/heapsnap/container_argument.h"

namespace heapsnap {

int resolve_target(const std::string& argument) {
  int pid = 0;
  const auto [end, error] =
      std::from_chars(argument.data(), argument.data() + argument.size(), pid);
  if (error == std::errc() && end == argument.data() + argument.size()) {
    if (pid > 0) return pid;
    throw Error(ErrorKind::kUsage, "PID " + argument, "a PID is a positive number",
                "list processes: ps -eo pid,user,comm,rss --sort=-rss | head -20");
  }
  if (argument.empty()) throw Error(ErrorKind::kUsage, "PID", "it is empty");
  if (const auto container = parse_container_argument(argument)) {
    return resolve_container(*container);
  }

  const std::vector<int> matches = processes_named(argument);
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

void fail_without_one_target(const std::string& command) {
  throw Error(ErrorKind::kUsage, command, "it needs one process",
              "give a PID, a name or a container: heapsnap " + command + " 4242");
}

}  // namespace heapsnap
