// The scheduling policy and the priority of one task, as sched_setscheduler(2) sets them.
//
// A thread of the target that is SCHED_FIFO or SCHED_RR itself, at a higher priority, would keep
// every processor from us for as long as it likes, with others of them stopped (8 such threads at
// priority 5 on two processors: for good). So ours are above those of all threads that we trace.
#pragma once

namespace heapsnap {

// The priority that threads of the target inherit (priority_inheritance.h) and other threads of
// ours get, and that of their tracer: one higher, so that it can always stop them. The lowest ones,
// until outrank() is called.
int inherited_priority() noexcept;
int tracer_priority() noexcept;

// From now on both are above the real-time priority of thread `tid`, up to the highest there is.
void outrank(int tid) noexcept;

// Of a policy as sched_getscheduler(2) gives it, whether or not SCHED_RESET_ON_FORK is set.
bool is_realtime(int policy) noexcept;
// SCHED_OTHER, SCHED_BATCH or SCHED_IDLE: of no use to a tracer whose target waits.
bool is_ordinary(int policy) noexcept;

// `priority` is 0 for a policy that is not real-time. Returns false if that is not permitted. Here
// and below, 0 is the calling thread.
bool set_policy(int tid, int policy, int priority) noexcept;

// Makes a task of ours SCHED_FIFO, so that it does not wait for a processor. If that is not
// permitted, or not may_be_realtime() (realtime_limit.h), nothing changes, and this is false.
bool make_realtime(int tid) noexcept;
// Makes it SCHED_OTHER, so that it keeps a processor from nobody. Also a copy whose target is
// SCHED_BATCH or SCHED_IDLE: we wait for it, and it ends soon.
void make_ordinary(int tid) noexcept;

// Makes its nice value -20, if that is permitted, and returns the one before.
int make_least_nice(int tid) noexcept;
void set_nice(int tid, int nice) noexcept;

}  // namespace heapsnap
