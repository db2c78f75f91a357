// Which threads of a running process to ask for a system call (caller_stop.h).
#pragma once

#include <cstddef>
#include <vector>

#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

struct CallerCandidates {
  std::vector<int> tids;  // in the order to be asked: sleeping ones first, which lose nothing
  size_t alive = 0;       // all of them, and those that are not worth being asked
};

CallerCandidates list_caller_candidates(const ProcFs& proc, int pid);

// Whether `tid`, one of `before`, is the only thread now. It stands while this is asked, so others
// of `before` are looked at first, and one that lives will do: to look at all of 1000 threads takes
// 50 ms.
bool is_only_thread(const ProcFs& proc, int pid, int tid, const CallerCandidates& before);

}  // namespace heapsnap
