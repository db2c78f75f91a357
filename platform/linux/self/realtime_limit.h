// What bounds the time that a task may run with real-time priority.
//
//   RLIMIT_RTTIME       of the process: the kernel sends SIGXCPU when a thread has run so for some
//                       time (setrlimit(2)), and that ends the process.
//   cpu.rt_runtime_us   of a control group of version 1: what all its real-time threads together
//                       may run in a period on each processor. Once that is used up, none of them
//                       runs until the next period begins, a second after the last one in general,
//                       also if a processor is idle.
#pragma once

#include <string_view>

#include "platform/linux/proc/kernel_files.h"

namespace heapsnap {

// Whether the process of `tid` has the first one, also for a priority that a thread of it inherits.
// True also if that cannot be known. Here and below, 0 is the caller's.
bool has_realtime_limit(int tid) noexcept;

// Whether a group in `cgroup_text`, the text of /proc/PID/cgroup, or one above, allows less than
// 100 ms in a period, which is what a pause may need, and less than half of the period. False also
// if that cannot be known: mostly there is no such bound.
bool has_small_realtime_budget(std::string_view cgroup_text, const KernelFiles& files = {});

// Whether neither of them bounds `tid`: only then may it be made real-time.
bool may_be_realtime(int tid) noexcept;

}  // namespace heapsnap
