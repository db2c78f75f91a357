#include "tools/collect/target_finder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/regular_file.h"
#include "platform/linux/freeze/copy_reaper.h"
#include "platform/linux/proc/container_path.h"
#include "platform/linux/proc/container_processes.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/process_status.h"

namespace heapsnap {

namespace {

// Calls `is_it` with each component of a path until it gives true.
template <typename Predicate>
bool any_component(std::string_view path, Predicate is_it) {
  while (!path.empty()) {
    const size_t slash = path.find('/');
    if (is_it(path.substr(0, slash))) return true;
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  }
  return false;
}

// File name of the executable; one that was replaced since it was started goes by its old name.
std::string_view program_name(std::string_view exe) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (exe.ends_with(kDeleted)) exe.remove_suffix(kDeleted.size());
  return exe.substr(exe.rfind('/') + 1);
}

bool is_named(const ListedProcess& process, const std::string& name) {
  return process.comm == name || program_name(process.exe) == name ||
         (name.front() == '/' && process.exe == name);
}

// Whoever may write a pid file names the process that is collected: that has to be its own user, or
// one who may do as much anyway.
bool may_name(uid_t owner, int pid) {
  if (owner == 0 || owner == ::geteuid()) return true;
  const auto status = read_process_status(ProcFs(), pid);
  return !status || status->uid.real == owner || status->uid.effective == owner;
}

// The number in a pid file; nothing, with the reason, where there is none.
std::optional<int> read_pid_file(const std::string& path, std::string& why_not) {
  try {
    UniqueFd opened = open_regular(path);
    struct stat status {};
    if (!opened || ::fstat(opened.get(), &status) != 0) {
      why_not = errno_text(errno);
      return std::nullopt;
    }
    const MappedFile file = MappedFile::from_fd(std::move(opened), path);
    std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    const auto pid = parse_number(take_word(text));
    const bool is_pid = pid && *pid > 0 && *pid <= INT32_MAX;
    if (is_pid && may_name(status.st_uid, static_cast<int>(*pid))) return static_cast<int>(*pid);
    why_not = is_pid ? "it belongs to neither root nor the user of the process that it names"
                     : "its first word is no pid";
  } catch (const Error& error) {
    why_not = error.why();
  }
  return std::nullopt;
}

template <typename Predicate>
bool any_group(const ListedProcess& process, Predicate is_it) {
  return std::any_of(process.cgroups.begin(), process.cgroups.end(), is_it);
}

bool is_meant(const TargetRule& rule, const ListedProcess& process) {
  // A copy that another heapsnap has made of a target, or its zombie.
  if (process.comm == kCopyName) return false;
  if (!rule.process.empty() && !is_named(process, rule.process)) return false;
  if (!rule.unit.empty() &&
      !any_group(process, [&](const std::string& path) { return is_of_unit(path, rule.unit); })) {
    return false;
  }
  return rule.cgroup.empty() || any_group(process, [&](const std::string& path) {
           return is_below_group(path, rule.cgroup);
         });
}

// Leaves the processes of a container or pod; all of them where it has no name. False, with the
// reason, where several begin so.
bool narrow_to(const ContainerName& name, std::vector<ListedProcess>& processes, std::string& why) {
  if (name.begin.empty()) return true;
  ContainerMatch match = match_container(name, processes);
  if (match.ids.size() > 1) {
    why = std::to_string(match.ids.size()) +
          (name.kind == ContainerName::Kind::kPod ? " pods have a UID" : " containers have an id") +
          " that begins with " + name.begin;
    return false;
  }
  processes = std::move(match.processes);
  return true;
}

}  // namespace

bool is_of_unit(const std::string& path, const std::string& unit) {
  return any_component(path, [&](std::string_view component) { return component == unit; });
}

bool is_of_system_unit(const std::string& path, const std::string& unit) {
  bool is_it = false;
  any_component(path, [&](std::string_view component) {
    is_it = component == unit;
    return is_it || !(component.empty() || component.ends_with(".slice"));
  });
  return is_it;
}

bool is_below_group(const std::string& path, const std::string& group) {
  return path.starts_with(group) &&
         (path.size() == group.size() || path[group.size()] == '/' || group == "/");
}

ListedEntries entries_for(const std::vector<TargetRule>& targets) {
  ListedEntries entries;
  for (const TargetRule& rule : targets) {
    if (!rule.process.empty()) entries.exe = true;
    if (!rule.unit.empty() || !rule.cgroup.empty() || !rule.container.empty() ||
        !rule.pod.empty()) {
      entries.cgroups = true;
    }
  }
  return entries;
}

TargetMatch match_target(const TargetRule& rule, const std::vector<ListedProcess>& processes) {
  TargetMatch match;
  const bool is_narrowed = !rule.container.empty() || !rule.pod.empty();
  std::vector<ListedProcess> in_container;
  if (is_narrowed) {
    in_container = processes;
    for (const auto& [kind, begin] : {std::pair(ContainerName::Kind::kContainer, rule.container),
                                      std::pair(ContainerName::Kind::kPod, rule.pod)}) {
      if (!narrow_to({kind, begin}, in_container, match.why_none)) return match;
    }
  }
  std::optional<int> pid;
  if (!rule.pid_file.empty()) {
    std::string why_not;
    pid = read_pid_file(rule.pid_file, why_not);
    if (!pid) {
      match.why_none = rule.pid_file + ": " + why_not;
      return match;
    }
  }
  for (const ListedProcess& process : is_narrowed ? in_container : processes) {
    if (pid && process.pid != *pid) continue;
    if (is_meant(rule, process)) match.processes.push_back(process);
  }
  // None but the system's unit where there is one: nobody else's can pass for it.
  const auto is_system = [&](const ListedProcess& process) {
    return !rule.unit.empty() && any_group(process, [&](const std::string& path) {
      return is_of_system_unit(path, rule.unit);
    });
  };
  if (std::any_of(match.processes.begin(), match.processes.end(), is_system)) {
    std::erase_if(match.processes, [&](const ListedProcess& each) { return !is_system(each); });
  }
  std::sort(match.processes.begin(), match.processes.end(),
            [](const ListedProcess& a, const ListedProcess& b) {
              return std::tie(a.start_time_ticks, a.pid) < std::tie(b.start_time_ticks, b.pid);
            });
  if (match.processes.empty()) {
    match.why_none = pid ? "process " + std::to_string(*pid) + " of " + rule.pid_file +
                               " does not run, or is another program"
                         : "no " + to_text(rule) + " runs";
  }
  return match;
}

std::string to_text(const TargetRule& rule) {
  std::string text = rule.process.empty() ? "process" : "process " + rule.process;
  if (!rule.pid_file.empty()) text += " of " + rule.pid_file;
  if (!rule.unit.empty()) text += " in unit " + rule.unit;
  if (!rule.cgroup.empty()) text += " in control group " + rule.cgroup;
  if (!rule.container.empty()) text += " in container " + rule.container;
  if (!rule.pod.empty()) text += " in pod " + to_pod_uid_text(rule.pod);
  return text;
}

}  // namespace heapsnap
