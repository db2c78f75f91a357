// PTRACE_SEIZE of one thread while others of its process are traced already.
//
// The call waits for an execve(2) in the process, which waits until its other threads are gone; and
// one that is traced is gone only when its tracer has waited for it. The tracer must not sleep for
// that in the call, or both do so for good (1 of 85 attaches to a program that executes itself).
#pragma once

#include <vector>

#include "platform/linux/trace/tracee.h"

namespace heapsnap {

// Seizes `tracee`, and gives up those of `traced`, which this thread traces, that exit meanwhile.
// Returns 0 or the errno of the refusal.
int seize_reaping(Tracee& tracee, const std::vector<Tracee>& traced);

}  // namespace heapsnap
