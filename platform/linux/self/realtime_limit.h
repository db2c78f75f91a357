// What bounds the time that a task may run with real-time priority.
#pragma once

namespace heapsnap {

// Whether the kernel kills the process of `tid` (SIGXCPU) when a thread of it has run for some time
// as SCHED_FIFO or SCHED_RR, or at a priority of theirs that it inherits (RLIMIT_RTTIME,
// setrlimit(2)). True also if that cannot be known. 0: the caller's.
bool has_realtime_limit(int tid) noexcept;

}  // namespace heapsnap
