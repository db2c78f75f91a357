#include "platform/linux/proc/container_processes.h"

#include <algorithm>
#include <map>

#include "platform/linux/proc/container_path.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/named_processes.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/proc/process_status.h"

namespace heapsnap {

namespace {

using Kind = ContainerName::Kind;

// What the path names, the outermost first.
std::vector<std::string> names_in(Kind kind, const std::string& path) {
  std::vector<std::string> names;
  if (kind == Kind::kPod) {
    if (auto uid = pod_uid(path)) names.push_back(std::move(*uid));
  } else {
    for (const std::string_view id : container_ids(path)) names.emplace_back(id);
  }
  return names;
}

// How deep in the path of one of its groups the name comes first, and whose it is there.
struct FoundName {
  size_t depth = SIZE_MAX;
  std::string id;
};

FoundName find_name(const ContainerName& name, const ListedProcess& process) {
  FoundName found;
  for (const std::string& path : process.cgroups) {
    const std::vector<std::string> names = names_in(name.kind, path);
    for (size_t depth = 0; depth < names.size() && depth < found.depth; ++depth) {
      if (names[depth].starts_with(name.begin)) found = {depth, names[depth]};
    }
  }
  return found;
}

std::string innermost_container(const ListedProcess& process) {
  std::string id;
  for (const std::string& path : process.cgroups) {
    const std::vector<std::string_view> ids = container_ids(path);
    if (!ids.empty()) id = ids.back();
  }
  return id;
}

bool is_pause(const std::string& comm, const std::string& exe) {
  return comm == "pause" && exe == "/pause";
}

}  // namespace

ContainerMatch match_container(const ContainerName& name,
                               const std::vector<ListedProcess>& processes) {
  ContainerMatch match;
  size_t depth = SIZE_MAX;
  for (const ListedProcess& process : processes) {
    FoundName found = find_name(name, process);
    if (found.id.empty() || found.depth > depth) continue;
    if (found.depth < depth) match = {};
    depth = found.depth;
    match.ids.insert(std::move(found.id));
    match.processes.push_back(process);
  }
  return match;
}

std::set<std::string> containers_of(Kind kind, const std::vector<ListedProcess>& processes) {
  std::set<std::string> ids;
  for (const ListedProcess& process : processes) {
    for (const std::string& path : process.cgroups) {
      for (std::string& id : names_in(kind, path)) ids.insert(std::move(id));
    }
  }
  return ids;
}

std::vector<ContainedProcess> look_at_contained(const std::vector<ListedProcess>& processes,
                                                const std::string& proc) {
  const ProcFs files(proc);
  const std::set<int> ancestry = own_ancestry(proc);
  std::vector<ContainedProcess> looked_at;
  for (const ListedProcess& process : processes) {
    if (ancestry.contains(process.pid)) continue;
    const auto status = read_process_status(files, process.pid);
    if (!status) continue;
    const std::string exe = link_target_or_empty(files.path(process.pid, "exe"));
    looked_at.push_back({process.pid, status->parent, process.comm, status->namespace_pids,
                         status->rss, innermost_container(process), is_pause(process.comm, exe)});
  }
  return looked_at;
}

size_t main_process(const std::vector<ContainedProcess>& processes) {
  const bool only_sandboxes =
      std::all_of(processes.begin(), processes.end(),
                  [](const ContainedProcess& process) { return process.is_sandbox; });
  const auto counts = [&](const ContainedProcess& process) {
    return only_sandboxes || !process.is_sandbox;
  };
  std::set<int> pids;
  for (const ContainedProcess& process : processes) {
    if (counts(process)) pids.insert(process.pid);
  }
  // Those whose parent is none of them.
  std::vector<size_t> tops;
  std::vector<size_t> first_of_namespace;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (!counts(processes[i]) || pids.contains(processes[i].parent)) continue;
    tops.push_back(i);
    const std::vector<int>& inside = processes[i].namespace_pids;
    if (!inside.empty() && inside.back() == 1) first_of_namespace.push_back(i);
  }
  if (tops.size() == 1) return tops.front();
  if (first_of_namespace.size() != 1) return kNoMainProcess;
  const size_t first = first_of_namespace.front();
  const size_t levels = processes[first].namespace_pids.size();
  const bool all_inside = std::all_of(tops.begin(), tops.end(), [&](size_t top) {
    return processes[top].namespace_pids.size() >= levels;
  });
  return all_inside ? first : kNoMainProcess;
}

}  // namespace heapsnap
