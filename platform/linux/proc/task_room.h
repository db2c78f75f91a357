// How many tasks more a process may make: pids.max of its control groups, and RLIMIT_NPROC, which
// the kernel compares with all processes and threads of the same real user (setrlimit(2)).
//
// A copy, or a thread of ours, takes one of them for as long as it lives. Where few are left, the
// fork(2) of the target that comes next would fail for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/kernel_files.h"
#include "platform/linux/proc/process_status.h"

namespace heapsnap {

// RLIMIT_NPROC of a process, with what is used of it.
struct UserTasks {
  uint32_t user = 0;
  uint64_t limit = 0;
  uint64_t used = 0;

  uint64_t room() const { return used < limit ? limit - used : 0; }
};

// Nothing where there is no limit, where fewer tasks exist on the whole machine, and for root, whom
// the kernel never refuses.
std::optional<UserTasks> read_user_tasks(const ProcessStatus& process, const KernelFiles& files);

// One reason to make no task in a process.
struct TaskRefusal {
  std::string id;  // "pids-cgroup", "user-tasks"
  std::string what;
  std::string why;
};

// The limit that leaves room for less than `wanted` tasks beside what the process itself may come
// to need; nothing when there is none.
std::optional<TaskRefusal> find_task_refusal(const CgroupLimits& limits,
                                             const std::optional<UserTasks>& user_tasks,
                                             uint64_t wanted);

// The same, read for one process now.
std::optional<TaskRefusal> find_task_refusal(int pid, uint64_t wanted,
                                             const KernelFiles& files = {});

}  // namespace heapsnap
