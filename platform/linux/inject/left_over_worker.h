// Threads that a heapsnap created in a process and could not wait for, because it was killed.
//
// Such a thread continues with what it was created for, a dlopen perhaps. Meanwhile another
// heapsnap would find the library neither loaded nor absent, so it waits for such threads: each has
// its mapping (injected_mapping.h), which is recognized by the code in it.
#pragma once

#include <chrono>

#include "platform/linux/proc/proc_fs.h"
#include "target/memory_reader.h"

namespace heapsnap {

// Throws Error{kUnsupported} if one works longer than `patience`.
void await_left_over_workers(const ProcFs& proc, int pid, MemoryReader& memory,
                             std::chrono::milliseconds patience);

}  // namespace heapsnap
