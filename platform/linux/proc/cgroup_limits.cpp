#include "platform/linux/proc/cgroup_limits.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

namespace {

// File names of one controller. v1 writes "no limit" as a number near 2^63, v2 as "max", which does
// not parse as a number.
struct LimitFiles {
  const char* limit;
  const char* used;
};
// Above memory.high the kernel throttles the group until it uses less.
constexpr std::array kMemoryV2{LimitFiles{"memory.max", "memory.current"},
                               LimitFiles{"memory.high", "memory.current"}};
constexpr std::array kMemoryV1{
    LimitFiles{"memory.limit_in_bytes", "memory.usage_in_bytes"},
    LimitFiles{"memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"}};
constexpr const char* kReclaimableV2 = "inactive_file";
constexpr const char* kReclaimableV1 = "total_inactive_file";
constexpr LimitFiles kProcesses = {"pids.max", "pids.current"};
constexpr uint64_t kNoLimitV1 = uint64_t{1} << 60;

std::optional<uint64_t> read_number(const std::string& path) {
  const std::optional<std::string> text = read_kernel_text(path);
  return text ? parse_number(*text) : std::nullopt;
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// The folders of `path` below `mount`, from the group itself up to the root of the hierarchy. In a
// container the mount's root is often the container's own group, while /proc names the group from
// the host's root: then only the mount itself is visible.
std::vector<std::string> folders_upwards(const std::string& mount, std::string path) {
  std::vector<std::string> folders;
  const bool outside = path.find("/..") != std::string::npos;  // outside our cgroup namespace
  if (!outside && is_folder(mount + path)) {
    while (path.size() > 1) {
      folders.push_back(mount + path);
      path.resize(path.find_last_of('/'));
    }
  }
  folders.push_back(mount);
  return folders;
}

std::string group_name(const std::string& folder, const std::string& cgroup_root) {
  return folder.size() == cgroup_root.size() ? "/" : folder.substr(cgroup_root.size());
}

std::optional<CgroupLimit> tightest(const std::vector<std::string>& folders,
                                    const std::string& cgroup_root, const LimitFiles& files) {
  std::optional<CgroupLimit> result;
  for (const std::string& folder : folders) {
    const std::optional<uint64_t> limit = read_number(folder + "/" + files.limit);
    const std::optional<uint64_t> used = read_number(folder + "/" + files.used);
    if (!limit || !used) continue;
    CgroupLimit found{group_name(folder, cgroup_root), *limit, *used};
    if (!result || found.room() < result->room()) result = std::move(found);
  }
  return result;
}

std::optional<CgroupLimit> tightest_memory(const std::vector<MemoryLimitFiles>& limits) {
  std::optional<CgroupLimit> result;
  for (const MemoryLimitFiles& files : limits) {
    const auto limit = parse_memory_limit(kernel_text_or_empty(files.limit));
    const std::optional<uint64_t> used = read_number(files.used);
    if (!limit || !used) continue;
    const std::string statistics = kernel_text_or_empty(files.statistics);
    const uint64_t reclaimable = cgroup_statistic(statistics, files.reclaimable);
    CgroupLimit found{files.group, *limit, *used - std::min(*used, reclaimable)};
    if (!result || found.room() < result->room()) result = std::move(found);
  }
  return result;
}

template <size_t N>
void add_memory_limits(const std::vector<std::string>& folders, const std::string& cgroup_root,
                       const std::array<LimitFiles, N>& limits, const char* reclaimable,
                       std::vector<MemoryLimitFiles>& to) {
  for (const std::string& folder : folders) {
    for (const LimitFiles& files : limits) {
      if (!read_kernel_text(folder + "/" + files.limit)) continue;
      to.push_back({group_name(folder, cgroup_root), folder + "/" + files.limit,
                    folder + "/" + files.used, folder + "/memory.stat", reclaimable});
    }
  }
}

// The unified hierarchy is the mount itself or, next to v1 controllers, its folder "unified".
std::string unified_mount(const std::string& cgroup_root) {
  const std::string beside = cgroup_root + "/unified";
  return is_folder(beside) ? beside : cgroup_root;
}

void look_for_frozen(CgroupLimits& limits, const std::vector<std::string>& folders,
                     const std::string& cgroup_root) {
  for (const std::string& folder : folders) {
    const bool v2 = read_number(folder + "/cgroup.freeze") == 1;
    const std::optional<std::string> v1 = read_kernel_text(folder + "/freezer.state");
    if (v2 || (v1 && trimmed(*v1) == "FROZEN")) {
      limits.frozen = true;
      limits.frozen_group = folder.substr(cgroup_root.size());
      return;
    }
  }
}

}  // namespace

std::vector<CgroupPath> parse_cgroup(std::string_view text) {
  std::vector<CgroupPath> paths;
  while (const std::optional<std::string_view> line = take_line(text)) {
    const size_t first = line->find(':');
    if (first == std::string_view::npos) continue;
    const size_t second = line->find(':', first + 1);
    if (second == std::string_view::npos) continue;
    CgroupPath found;
    std::string_view names = line->substr(first + 1, second - first - 1);
    while (!names.empty()) {
      const size_t comma = names.find(',');
      found.controllers.emplace_back(names.substr(0, comma));
      names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 1);
    }
    found.path = line->substr(second + 1);
    if (found.path.starts_with('/')) paths.push_back(std::move(found));
  }
  return paths;
}

uint64_t cgroup_statistic(std::string_view text, std::string_view word) {
  while (const std::optional<std::string_view> line = take_line(text)) {
    if (line->size() > word.size() && line->starts_with(word) && (*line)[word.size()] == ' ') {
      return parse_number(line->substr(word.size())).value_or(0);
    }
  }
  return 0;
}

std::optional<uint64_t> parse_memory_limit(std::string_view text) {
  const std::optional<uint64_t> limit = parse_number(text);
  return limit && *limit < kNoLimitV1 ? limit : std::nullopt;
}

std::vector<MemoryLimitFiles> memory_limit_files(std::string_view cgroup_text,
                                                 const KernelFiles& files) {
  const std::string root = files.sys + "/fs/cgroup";
  std::vector<MemoryLimitFiles> limits;
  for (const CgroupPath& cgroup : parse_cgroup(cgroup_text)) {
    if (cgroup.controllers.empty()) {
      add_memory_limits(folders_upwards(unified_mount(root), cgroup.path), root, kMemoryV2,
                        kReclaimableV2, limits);
    }
    for (const std::string& controller : cgroup.controllers) {
      if (controller != "memory") continue;
      add_memory_limits(folders_upwards(root + "/" + controller, cgroup.path), root, kMemoryV1,
                        kReclaimableV1, limits);
    }
  }
  return limits;
}

std::vector<CgroupFolder> cgroup_folders(std::string_view cgroup_text, std::string_view controller,
                                         const KernelFiles& files) {
  const std::string root = files.sys + "/fs/cgroup";
  std::vector<CgroupFolder> found;
  const auto add = [&](const std::string& mount, const CgroupPath& cgroup) {
    for (const std::string& folder : folders_upwards(mount, cgroup.path)) {
      found.push_back({folder, group_name(folder, root)});
    }
  };
  for (const CgroupPath& cgroup : parse_cgroup(cgroup_text)) {
    if (cgroup.controllers.empty()) add(unified_mount(root), cgroup);
    for (const std::string& each : cgroup.controllers) {
      if (each == controller) add(root + "/" + each, cgroup);
    }
  }
  return found;
}

CgroupLimits read_cgroup_limits(std::string_view cgroup_text, const KernelFiles& files) {
  const std::string root = files.sys + "/fs/cgroup";
  CgroupLimits limits;
  limits.memory = tightest_memory(memory_limit_files(cgroup_text, files));
  for (const CgroupPath& cgroup : parse_cgroup(cgroup_text)) {
    if (cgroup.controllers.empty()) {
      const auto folders = folders_upwards(unified_mount(root), cgroup.path);
      if (!limits.processes) limits.processes = tightest(folders, root, kProcesses);
      look_for_frozen(limits, folders, root);
      limits.dies_together = std::any_of(
          folders.begin(), folders.end(),
          [](const std::string& folder) { return read_number(folder + "/memory.oom.group") == 1; });
    }
    for (const std::string& controller : cgroup.controllers) {
      const auto folders = folders_upwards(root + "/" + controller, cgroup.path);
      if (controller == "pids") limits.processes = tightest(folders, root, kProcesses);
      if (controller == "freezer") look_for_frozen(limits, folders, root);
    }
  }
  return limits;
}

CgroupLimits read_cgroup_limits(int pid, const KernelFiles& files) {
  return read_cgroup_limits(
      kernel_text_or_empty(files.proc + "/" + std::to_string(pid) + "/cgroup"), files);
}

std::string thaw_remedy(const CgroupLimits& limits) {
  const bool is_v1 = limits.frozen_group.starts_with("/freezer/");
  return "thaw it: docker unpause CONTAINER, systemctl thaw UNIT, or write " +
         std::string(is_v1 ? "THAWED to freezer.state of " : "0 to cgroup.freeze of ") +
         limits.frozen_group;
}

}  // namespace heapsnap
