#include "tests/live/memory_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/unique_fd.h"
#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/kernel_text.h"

namespace heapsnap::live {

namespace {

bool write_text(const std::string& path, const std::string& text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Where groups of this version that limit memory are to be made; empty: nowhere.
std::string parent_folder(MemoryGroup::Version version) {
  for (const CgroupPath& own : parse_cgroup(read_kernel_text("/proc/self/cgroup").value_or(""))) {
    if (version == MemoryGroup::Version::kV1) {
      if (own.controllers != std::vector<std::string>{"memory"}) continue;
      return "/sys/fs/cgroup/memory" + (own.path == "/" ? "" : own.path);
    }
    if (!own.controllers.empty()) continue;
    // A group with processes in it cannot have limited groups below; the root can.
    for (const std::string root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      const std::string controllers =
          read_kernel_text(root + "/cgroup.controllers").value_or(std::string());
      if (controllers.find("memory") == std::string::npos) continue;
      if (write_text(root + "/cgroup.subtree_control", "+memory")) return root;
    }
  }
  return {};
}

}  // namespace

std::optional<MemoryGroup> MemoryGroup::make(Version version, uint64_t limit,
                                             std::string& why_not) {
  const bool is_v1 = version == Version::kV1;
  const std::string parent = parent_folder(version);
  if (parent.empty()) {
    why_not = std::string("no control group of version ") + (is_v1 ? "1" : "2") +
              " limits memory on this machine";
    return std::nullopt;
  }
  MemoryGroup group(parent + "/heapsnap-test-" + std::to_string(::getpid()));
  if (::mkdir(group.folder_.c_str(), 0755) != 0) {
    why_not = group.folder_ + ": " + std::strerror(errno);
    group.folder_.clear();
    return std::nullopt;
  }
  if (!write_text(group.folder_ + (is_v1 ? "/memory.limit_in_bytes" : "/memory.max"),
                  std::to_string(limit))) {
    why_not = group.folder_ + ": its limit cannot be set";
    return std::nullopt;
  }
  // The machine's swap would hide the limit.
  write_text(group.folder_ + (is_v1 ? "/memory.memsw.limit_in_bytes" : "/memory.swap.max"),
             is_v1 ? std::to_string(limit) : "0");
  return group;
}

MemoryGroup::MemoryGroup(MemoryGroup&& other) noexcept
    : folder_(std::exchange(other.folder_, std::string())) {}

MemoryGroup::~MemoryGroup() {
  if (!folder_.empty()) ::rmdir(folder_.c_str());
}

std::vector<std::string> MemoryGroup::command(std::vector<std::string> words) const {
  std::vector<std::string> inside{"/bin/sh", "-c", R"(echo $$ >"$0/cgroup.procs" && exec "$@")",
                                  folder_};
  inside.insert(inside.end(), words.begin(), words.end());
  return inside;
}

bool MemoryGroup::die_together() const {
  return write_text(folder_ + "/memory.oom.group", "1");
}

}  // namespace heapsnap::live
