// Which stopped thread of the target may make a clone for us.
//
// There must be a place for frames that we can be sure about (frame_place.h): a thread on an
// alternate signal stack, a goroutine's or, but for the first thread, a coroutine's is left alone.
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

// What a caller is wanted for: all of these calls are made in its name or by its clone, so its
// seccomp filters must let all of them through.
struct CallerTask {
  std::vector<SystemCall> calls{};
  // Calls that may fail but must not kill: the C library does without them.
  std::vector<SystemCall> optional_calls{};
  size_t chain_length = 0;
  uint64_t gadget = 0;
};

// What a seccomp filter gets to see of a call that is made at the `syscall; ret` at `gadget`.
SeccompCall as_filter_sees(const SystemCall& call, uint64_t gadget);

struct Fitness {
  std::string why_not{};   // empty when it is fit
  bool may_pass = false;   // it is unfit by what it is at
  uint64_t frame_top = 0;  // below which its frames go
};
// Whether `thread` can be a caller. It is not altered. `owns_main_stack` as of find_frame_place().
Fitness fitness_of(const ProcFs& proc, const Tracee& thread, const CallerTask& task,
                   bool owns_main_stack);

struct ChosenCaller {
  size_t index = 0;
  uint64_t frame_top = 0;
};

// The thread of `process` among `threads` that would notice least if heapsnap were killed in the
// middle: one in a system call that is simply made again, before one in user code, before one in
// a sleep whose remaining time would be lost. Looks closely at a few only. Gives its index, or
// nothing and in `why_not` the reason that the last one had. All threads of the process stand.
std::optional<ChosenCaller> choose_caller(const ProcFs& proc, int process,
                                          std::span<const Tracee> threads, const CallerTask& task,
                                          std::string& why_not);

}  // namespace heapsnap
