#include "tools/heapsnap/target_argument.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "platform/linux/proc/named_processes.h"
#include "platform/linux/proc/proc_fs.h"
#include "report/number_text.h"
#include "report/shell_word.h"
#include "report/terminal_text.h"
#include "tools/heapsnap/container_argument.h"
#include "tools/heapsnap/error_output.h"

namespace heapsnap {

namespace {

// What tells them apart, those with the most resident memory first: "4242 (1.2 GiB: postgres:
// shop web 10.0.0.7 idle), 4243 (12.0 MiB: ...), ...".
std::string listed(const std::vector<int>& pids) {
  constexpr size_t kShown = 10;
  constexpr size_t kCommandWidth = 50;
  const ProcFs proc;
  std::vector<std::pair<uint64_t, int>> largest;
  for (const int pid : pids) largest.emplace_back(proc.resident_bytes(pid), pid);
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string list;
  for (size_t i = 0; i < std::min(largest.size(), kShown); ++i) {
    const auto [rss, pid] = largest[i];
    const std::string command = clipped(printable(proc.command_line(pid)), kCommandWidth);
    list += fmt::format("{}{} ({}{}{})", i == 0 ? "" : ", ", pid, size_text(rss),
                        command.empty() ? "" : ": ", command);
  }
  return pids.size() > kShown ? list + ", ..." : list;
}

// Where `pid` is a `heapsnap run`: the program that it started.
std::optional<int> program_run_by(int pid) {
  if (!executes_own_file(pid)) return std::nullopt;
  const ProcFs proc;
  const std::string command = proc.command_line(pid);
  const size_t verb = command.find(' ') + 1;
  const std::vector<int> children = proc.children(pid);
  if (command.compare(verb, 4, "run ") != 0 || children.size() != 1) return std::nullopt;
  return children.front();
}

}  // namespace

int resolve_target(const std::string& argument) {
  int pid = 0;
  const auto [end, error] =
      std::from_chars(argument.data(), argument.data() + argument.size(), pid);
  if (error == std::errc() && end == argument.data() + argument.size()) {
    if (pid > 0) {
      const std::optional<int> program = program_run_by(pid);
      if (!program) return pid;
      print_notice(
          fmt::format("heapsnap: PID {} is heapsnap run; the program that it started, PID "
                      "{}, is meant\n",
                      pid, *program));
      return *program;
    }
    throw Error(ErrorKind::kUsage, "PID " + argument, "a PID is a positive number",
                "list processes: ps -eo pid,user,comm,rss --sort=-rss | head -20");
  }
  if (argument.empty()) throw Error(ErrorKind::kUsage, "PID", "it is empty");
  if (const auto container = parse_container_argument(argument)) {
    return resolve_container(*container);
  }

  const std::vector<int> matches = processes_named(argument);
  if (matches.empty()) {
    std::error_code unreadable;
    const std::string word = shell_word(argument, "FILE");
    throw Error(
        ErrorKind::kNoProcess, "process \"" + argument + "\"", "no process has this name",
        std::filesystem::is_regular_file(argument, unreadable)
            ? fmt::format("to read a snapshot: heapsnap report {}; a core: heapsnap core {}", word,
                          word)
            : kListProcesses);
  }
  if (matches.size() > 1) {
    throw Error(ErrorKind::kUsage, "process \"" + argument + "\"",
                fmt::format("{} processes have this name: {}", matches.size(), listed(matches)),
                "give one of the PIDs");
  }
  return matches.front();
}

void fail_without_one_target(const std::string& command) {
  throw Error(ErrorKind::kUsage, command, "it needs one process",
              "give a PID, a name or a container: heapsnap " + command + " 4242");
}

}  // namespace heapsnap
