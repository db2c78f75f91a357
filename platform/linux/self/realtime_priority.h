// Runs the calling thread as SCHED_FIFO until the end of the scope.
//
// While threads of the target are being stopped or released, every time slice that heapsnap waits
// for a processor prolongs the pause: releasing 200 busy threads took 111 ms without this and 1.4
// ms with it. Without CAP_SYS_NICE or a real-time limit the kernel refuses, and nothing changes.
//
// A thread of the target that is SCHED_FIFO or SCHED_RR itself, at a higher priority, would keep
// every processor from us for as long as it likes, with others of them stopped (8 such threads at
// priority 5 on two processors: for good). So ours are above those of all threads that we trace.
#pragma once

#include <sched.h>

namespace heapsnap {

// The priority that threads of the target inherit (priority_inheritance.h) and other threads of
// ours get, and that of their tracer: one higher, so that it can always stop them. The lowest ones,
// until outrank() is called.
int inherited_priority() noexcept;
int tracer_priority() noexcept;

// From now on both are above the real-time priority of thread `tid`, up to the highest there is.
void outrank(int tid) noexcept;

class RealtimePriority {
 public:
  RealtimePriority() noexcept;
  RealtimePriority(const RealtimePriority&) = delete;
  RealtimePriority& operator=(const RealtimePriority&) = delete;
  ~RealtimePriority();

 private:
  int policy_before_ = SCHED_OTHER;
  sched_param parameters_before_{};
  bool raised_ = false;
};

// Of a policy as sched_getscheduler(2) gives it, whether or not SCHED_RESET_ON_FORK is set.
bool is_realtime(int policy) noexcept;
// SCHED_OTHER or SCHED_BATCH.
bool is_ordinary(int policy) noexcept;

// Whether RealtimePriority has an effect on the calling thread, or it has such a priority.
bool gets_realtime_priority() noexcept;

// Whether the kernel kills the process of `tid` (SIGXCPU) when a thread of it has run for some time
// as SCHED_FIFO or SCHED_RR, or at a priority of theirs that it inherits (RLIMIT_RTTIME,
// setrlimit(2)). True also if that cannot be known. 0: the caller's.
bool has_realtime_limit(int tid) noexcept;

// Makes another task SCHED_FIFO: one of ours, which must not wait for a processor. If that is not
// permitted or has_realtime_limit(), nothing changes, and this is false.
bool make_realtime(int tid) noexcept;
// Makes it SCHED_OTHER, so that it keeps a processor from nobody.
void make_ordinary(int tid) noexcept;

}  // namespace heapsnap
