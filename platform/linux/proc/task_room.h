// How many more tasks a process may create: pids.max of its control groups, and RLIMIT_NPROC, which
// the kernel compares with all processes and threads of the same real user (setrlimit(2)).
//
// A copy, or a thread of ours, takes one of them for as long as it lives. If few are left, the
// target's next fork(2) could fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/kernel_files.h"
#include "platform/linux/proc/process_status.h"

namespace heapsnap {

// RLIMIT_NPROC of a process and how much of it is used.
struct UserTasks {
  uint32_t user = 0;
  uint64_t limit = 0;
  uint64_t used = 0;
  uint64_t hidden = 0;  // tasks of others or of this user, which /proc does not show

  uint64_t room() const { return used + hidden < limit ? limit - used - hidden : 0; }
};

// nullopt if there is no limit, if fewer tasks exist on the whole machine, or for root, whom the
// kernel never refuses.
std::optional<UserTasks> read_user_tasks(const ProcessStatus& process, const KernelFiles& files);

// A reason not to create a task in a process.
struct TaskRefusal {
  std::string id;  // "pids-cgroup", "user-tasks"
  std::string what;
  std::string why;
};

// The limit that leaves room for fewer than `wanted` tasks besides those that the process itself
// may need; nullopt if there is none.
std::optional<TaskRefusal> find_task_refusal(const CgroupLimits& limits,
                                             const std::optional<UserTasks>& user_tasks,
                                             uint64_t wanted);

// The same, read for one process now.
std::optional<TaskRefusal> find_task_refusal(int pid, uint64_t wanted,
                                             const KernelFiles& files = {});

}  // namespace heapsnap
