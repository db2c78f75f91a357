// In which PID namespace a thread creates children.
#pragma once

#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

// Whether the children of thread `tid` come into another PID namespace than its own: it called
// unshare(2) or setns(2) with CLONE_NEWPID. The first of them is the init of a new namespace, and
// once that ends, no other can be created. Nor can the thread create another thread: the kernel
// refuses CLONE_THREAD with EINVAL (copy_process()). False where /proc does not tell.
bool creates_children_elsewhere(const ProcFs& proc, int tid);

}  // namespace heapsnap
