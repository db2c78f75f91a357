// One system call in a running process, made by one of its threads.
#pragma once

#include <chrono>

#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/remote_call/stopped_caller.h"
#include "target/memory_reader.h"

namespace heapsnap {

struct RemoteCallResult {
  long value = 0;  // or -errno
  int tid = 0;     // of the thread that made it
  std::chrono::nanoseconds stolen{};
};

// The call must be one that ends soon by itself. Throws Error{kNoProcess, kNotPermitted,
// kUnsupported} with the target unchanged.
RemoteCallResult make_remote_call(const ProcFs& proc, int pid, const SystemCall& call,
                                  MemoryReader& memory);

}  // namespace heapsnap
