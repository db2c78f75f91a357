// Threads that a heapsnap has put into a process and could not wait for, because it was killed.
//
// Such a thread goes on with what it was made for, a dlopen perhaps. Who looks at the process
// meanwhile finds neither the library nor its absence. So they are waited for: each has its mapping
// (injected_mapping.h), which is known by the code in it.
#pragma once

#include <chrono>

#include "platform/linux/proc/proc_fs.h"
#include "target/memory_reader.h"

namespace heapsnap {

// Throws Error{kUnsupported} when one is at work longer than `patience`.
void await_left_over_workers(const ProcFs& proc, int pid, MemoryReader& memory,
                             std::chrono::milliseconds patience);

}  // namespace heapsnap
