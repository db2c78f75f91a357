// Which threads of a running process to ask for a system call (caller_stop.h).
#pragma once

#include <cstddef>
#include <vector>

#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

struct CallerCandidates {
  std::vector<int> tids;  // in the order to ask them: sleeping ones first, which lose nothing
  size_t alive = 0;       // also counts threads that are not worth asking
};

CallerCandidates list_caller_candidates(const ProcFs& proc, int pid);

// Whether `tid`, one of `before`, is the only thread now. It is stopped meanwhile, so the others of
// `before` are checked first, and one that is alive settles it: checking all of 1000 threads takes
// 50 ms.
bool is_only_thread(const ProcFs& proc, int pid, int tid, const CallerCandidates& before);

}  // namespace heapsnap
