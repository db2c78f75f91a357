// Which stopped thread of the target may make system calls for heapsnap.
//
// Its frames need a place that is certainly unused (frame_place.h): a thread on an alternate signal
// stack, on a goroutine's or, unless it is the main thread, on a coroutine's is chosen only where
// there is no other and all are stopped; its frames then go below the main thread's.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/proc/seccomp_filter.h"
#include "platform/linux/remote_call/stopped_caller.h"
#include "platform/linux/trace/tracee.h"

namespace heapsnap {

// What a caller is needed for: it or its clone makes all of these calls, so its seccomp filters
// must let all of them through.
struct CallerTask {
  std::vector<SystemCall> calls{};
  // Calls that may fail but must not kill: the C library can do without them.
  std::vector<SystemCall> optional_calls{};
  size_t chain_length = 0;
  uint64_t gadget = 0;
  std::string last_resort{};  // the remedy if no thread can ever make them; empty: an attach
};

// What a seccomp filter sees of a call that is made at the `syscall; ret` at `gadget`.
SeccompCall as_filter_sees(const SystemCall& call, uint64_t gadget);

struct Fitness {
  std::string why_not{};   // empty if it is fit
  bool may_pass = false;   // it is unfit because of what it is doing now
  uint64_t frame_top = 0;  // its frames go below this
  std::string remedy{};    // if there is a particular one
};
// Whether `thread` can be a caller. Does not alter it. `owns_main_stack` as for find_frame_place().
Fitness fitness_of(const ProcFs& proc, const Tracee& thread, const CallerTask& task,
                   bool owns_main_stack);

// Whether system calls of this stopped thread are signals to it (PR_SET_SYSCALL_USER_DISPATCH), as
// far as the kernel tells.
bool dispatches_syscalls(const Tracee& thread);

struct ChosenCaller {
  size_t index = 0;
  uint64_t frame_top = 0;
};

// The thread of `process` among `threads` that would notice least if heapsnap were killed halfway:
// one in a system call that is simply restarted, before one in user code, before one in a sleep
// whose remaining time would be lost. Examines only a few closely. Returns its index, or nullopt
// and in `why_not` the reason for the last one. All threads of the process are stopped.
std::optional<ChosenCaller> choose_caller(const ProcFs& proc, int process,
                                          std::span<const Tracee> threads, const CallerTask& task,
                                          std::string& why_not);

}  // namespace heapsnap
