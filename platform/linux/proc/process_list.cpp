#include "platform/linux/proc/process_list.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

namespace {

std::vector<std::string> cgroup_paths(const std::string& text) {
  std::vector<std::string> paths;
  for (CgroupPath& group : parse_cgroup(text)) paths.push_back(std::move(group.path));
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

}  // namespace

std::vector<ListedProcess> list_processes(const ListedEntries& entries, const std::string& proc) {
  const ProcFs files(proc);
  std::vector<ListedProcess> processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(proc, error)) {
    const auto number = parse_number(entry.path().filename().string());
    const int pid = number && *number <= INT32_MAX ? static_cast<int>(*number) : 0;
    if (pid <= 0 || pid == ::getpid()) continue;
    const auto stat = files.try_stat(pid);
    // The main thread may have exited before the others: then it is a zombie.
    if (!stat || stat->is_kernel_task() || (stat->is_dead() && !files.live_tid(pid))) continue;
    ListedProcess process{pid, stat->comm, stat->start_time_ticks, {}, {}};
    if (entries.exe) process.exe = link_target_or_empty(files.path(pid, "exe"));
    if (entries.cgroups) {
      process.cgroups = cgroup_paths(files.try_read(pid, "cgroup").value_or(std::string()));
    }
    processes.push_back(std::move(process));
  }
  std::sort(processes.begin(), processes.end(),
            [](const ListedProcess& a, const ListedProcess& b) { return a.pid < b.pid; });
  return processes;
}

}  // namespace heapsnap
