// How much memory and how many processes the control groups of a process still allow (v1 and v2).
//
//   /proc/PID/cgroup   0::/system.slice/app.service          v2
//                      9:memory:/docker/3f2a...              v1, one line per controller
//
// A limit applies to a group and everything below it, so the room is the least on the way up to the
// root.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/linux/proc/kernel_files.h"

namespace heapsnap {

struct CgroupPath {
  std::vector<std::string> controllers;  // empty: the unified hierarchy (v2)
  std::string path;                      // from the root of the reader's cgroup namespace
  bool operator==(const CgroupPath&) const = default;
};

// Parses the text of /proc/PID/cgroup; skips malformed lines.
std::vector<CgroupPath> parse_cgroup(std::string_view text);

// One limit and its usage, of the group that leaves the least room.
struct CgroupLimit {
  std::string group;  // folder below /sys/fs/cgroup
  uint64_t limit = 0;
  uint64_t used = 0;  // memory: without file pages that the kernel can reclaim at once

  uint64_t room() const { return used < limit ? limit - used : 0; }
};

struct CgroupLimits {
  std::optional<CgroupLimit> memory;     // bytes; nullopt: no limit, or not readable
  std::optional<CgroupLimit> processes;  // tasks, as the pids controller counts them
  // When memory runs out, the kernel kills all processes of the group, not just one
  // (memory.oom.group of v2: systemd's OOMPolicy=kill, Kubernetes containers).
  bool dies_together = false;
  bool frozen = false;  // by the freezer: `docker pause`, systemctl freeze
  std::string frozen_group;
};

// The files of one memory limit of one group. The limit is bytes, or the word "max".
struct MemoryLimitFiles {
  std::string group;  // as CgroupLimit::group
  std::string limit;
  std::string used;
  std::string statistics;
  std::string reclaimable;  // key in `statistics` of what the kernel can reclaim at once
};

// All that exist, of the groups in `cgroup_text` and those above, for callers that read them often.
std::vector<MemoryLimitFiles> memory_limit_files(std::string_view cgroup_text,
                                                 const KernelFiles& files);

// A group's folder, and its name as CgroupLimit::group.
struct CgroupFolder {
  std::string path;
  std::string group;
};

// Where `controller` may limit the groups in `cgroup_text`: their own folders and those above.
std::vector<CgroupFolder> cgroup_folders(std::string_view cgroup_text, std::string_view controller,
                                         const KernelFiles& files);

// The number after `word` in the text of memory.stat or cpu.stat ("inactive_file 1234"); 0 if it is
// not there.
uint64_t cgroup_statistic(std::string_view text, std::string_view word);

// The number in a limit file; nullopt if there is no limit.
std::optional<uint64_t> parse_memory_limit(std::string_view text);

// Reads the limits of the groups in `cgroup_text`, the text of /proc/PID/cgroup.
CgroupLimits read_cgroup_limits(std::string_view cgroup_text, const KernelFiles& files);
// The same for a process.
CgroupLimits read_cgroup_limits(int pid, const KernelFiles& files);

// How to thaw a frozen group. cgroup v1 has a controller for it, v2 a file in each group.
std::string thaw_remedy(const CgroupLimits& limits);

}  // namespace heapsnap
