// Why a process does not get one more thread, and what to do about it, by the errno of the call
// that was to create it.
#pragma once

#include <string>

#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

// Where a limit of tasks is the cause.
inline constexpr const char* kMoreTasks =
    "check whether a task limit has been reached: pids.max of its cgroup, ulimit -u";

struct ThreadRefusal {
  std::string why;
  std::string remedy;
};

// Thread `tid` of process `pid` called clone(2), which failed with `error`; 0: it is not known
// which, since the thread had returned before it was stopped again.
ThreadRefusal clone_refusal(const ProcFs& proc, int pid, int tid, int error);

// The process called pthread_create(3), which failed with `error`. `bars_clone3`: a seccomp filter
// of the calling thread does not let clone3(2) through.
ThreadRefusal creation_refusal(int pid, int error, bool bars_clone3);

}  // namespace heapsnap
