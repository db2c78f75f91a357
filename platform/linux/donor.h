// Which stopped thread of the target may lend itself for a clone in its name.
//
// Its stack must be one that we can be sure about, since frames are put below its stack pointer:
// the main stack, or the mapping that holds the thread's control block as well, above the stack,
// as glibc lays out the stacks of its threads. So threads that run on an alternate signal stack, a
// coroutine's or a goroutine's stack are left alone.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/linux/borrowed_thread.h"
#include "platform/linux/proc_fs.h"
#include "platform/linux/seccomp_filter.h"
#include "platform/linux/tracee.h"

namespace heapsnap {

// What a donor is wanted for: all of these calls are made in its name or by its clone, so its
// seccomp filters must let all of them through.
struct DonorTask {
  std::vector<SystemCall> calls{};
  // Calls that may fail but must not kill: the C library does without them.
  std::vector<SystemCall> optional_calls{};
  size_t chain_length = 0;
  uint64_t gadget = 0;
};

// What a seccomp filter gets to see of a call that is made at the `syscall; ret` at `gadget`.
SeccompCall as_filter_sees(const SystemCall& call, uint64_t gadget);

// Why `thread` cannot be a donor; nothing when it can. It is not altered.
std::optional<std::string> why_unfit(const ProcFs& proc, const Tracee& thread,
                                     const DonorTask& task);

// The thread of `process` among `threads` that would notice least if heapsnap were killed in the
// middle: one in a system call that is simply made again, before one in user code, before one in
// a sleep whose remaining time would be lost. Looks closely at a few only. Gives its index, or
// nothing and in `why_not` the reason that the last one had.
std::optional<size_t> choose_donor(const ProcFs& proc, int process, std::span<const Tracee> threads,
                                   const DonorTask& task, std::string& why_not);

}  // namespace heapsnap
