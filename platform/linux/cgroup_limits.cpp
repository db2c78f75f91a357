#include "platform/linux/cgroup_limits.h"

#include <sys/stat.h>

#include <algorithm>

#include "platform/linux/kernel_text.h"

namespace heapsnap {

namespace {

// Names of one controller's files. v1 says "no limit" by a number near 2^63, v2 by "max", which is
// no number.
struct LimitFiles {
  const char* limit;
  const char* used;
  const char* statistics;  // where the reclaimable part of `used` stands; may be null
  const char* reclaimable;
};
constexpr LimitFiles kMemoryV2 = {"memory.max", "memory.current", "memory.stat", "inactive_file"};
constexpr LimitFiles kMemoryV1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat",
                                  "total_inactive_file"};
constexpr LimitFiles kProcesses = {"pids.max", "pids.current", nullptr, nullptr};
constexpr uint64_t kNoLimitV1 = uint64_t{1} << 60;

std::optional<uint64_t> read_number(const std::string& path) {
  const std::optional<std::string> text = read_kernel_text(path);
  return text ? parse_number(*text) : std::nullopt;
}

// "inactive_file 1234" of memory.stat.
uint64_t statistic(const std::string& path, std::string_view key) {
  const std::optional<std::string> text = read_kernel_text(path);
  std::string_view rest = text ? *text : std::string_view();
  while (const std::optional<std::string_view> line = take_line(rest)) {
    if (line->size() > key.size() && line->starts_with(key) && (*line)[key.size()] == ' ') {
      return parse_number(line->substr(key.size())).value_or(0);
    }
  }
  return 0;
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// The folders of `path` below `mount`, from the group itself up to the root of the hierarchy.
// A container often sees its own group as the root of the mount while /proc names it from the
// host's root: then the mount itself is all there is to see.
std::vector<std::string> folders_upwards(const std::string& mount, std::string path) {
  std::vector<std::string> folders;
  const bool outside = path.find("/..") != std::string::npos;  // of another cgroup namespace
  if (!outside && is_folder(mount + path)) {
    while (path.size() > 1) {
      folders.push_back(mount + path);
      path.resize(path.find_last_of('/'));
    }
  }
  folders.push_back(mount);
  return folders;
}

std::optional<CgroupLimit> tightest(const std::vector<std::string>& folders,
                                    const std::string& cgroup_root, const LimitFiles& files) {
  std::optional<CgroupLimit> result;
  for (const std::string& folder : folders) {
    const std::optional<uint64_t> limit = read_number(folder + "/" + files.limit);
    const std::optional<uint64_t> used = read_number(folder + "/" + files.used);
    if (!limit || !used || *limit >= kNoLimitV1) continue;
    CgroupLimit found{folder.substr(cgroup_root.size()), *limit, *used};
    if (found.group.empty()) found.group = "/";
    if (files.statistics != nullptr) {
      found.used -=
          std::min(found.used, statistic(folder + "/" + files.statistics, files.reclaimable));
    }
    if (!result || found.room() < result->room()) result = std::move(found);
  }
  return result;
}

// The unified hierarchy is the mount itself, or beside v1 controllers its folder "unified".
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

CgroupLimits read_cgroup_limits(std::string_view cgroup_text, const KernelFiles& files) {
  const std::string root = files.sys + "/fs/cgroup";
  CgroupLimits limits;
  for (const CgroupPath& cgroup : parse_cgroup(cgroup_text)) {
    if (cgroup.controllers.empty()) {
      const auto folders = folders_upwards(unified_mount(root), cgroup.path);
      if (!limits.memory) limits.memory = tightest(folders, root, kMemoryV2);
      if (!limits.processes) limits.processes = tightest(folders, root, kProcesses);
      look_for_frozen(limits, folders, root);
    }
    for (const std::string& controller : cgroup.controllers) {
      const auto folders = folders_upwards(root + "/" + controller, cgroup.path);
      if (controller == "memory") limits.memory = tightest(folders, root, kMemoryV1);
      if (controller == "pids") limits.processes = tightest(folders, root, kProcesses);
      if (controller == "freezer") look_for_frozen(limits, folders, root);
    }
  }
  return limits;
}

}  // namespace heapsnap
