// The system calls of the threads that heapsnap creates in the target (injected_thread.h), without
// those of the functions that they are made for.
#pragma once

#include "platform/linux/remote_call/caller_choice.h"

namespace heapsnap {

// Adds those that the bootstrap and the worker make after the clone, and glibc's malloc in them.
void add_thread_calls(CallerTask& task);

}  // namespace heapsnap
