// Whether two processes run in the same memory, as a child of vfork(2) or clone(CLONE_VM) does with
// its parent until it executes another program.
//
// kcmp(2) tells. Where it is refused (seccomp filters of containers, kernels without CONFIG_KCMP)
// nothing else proves it without a change of that memory, but two things disprove it: a program
// executed since the child was made, and figures that are one memory's own (peaks, page counts,
// page tables). Those of a forked child differ from its parent's: its peaks start over, and a fork
// does not copy the page tables of mapped files.
#pragma once

#include <cstdint>

#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

enum class CommonMemory : uint8_t { kNo, kPerhaps, kYes };

// Of `pid` and a child of it that may be running.
CommonMemory common_memory(const ProcFs& proc, int pid, int child);

// Gives true only where the figures of the two cannot be those of one memory: they differ, and the
// first's were the same before and after the look at the second's.
bool have_different_memory(const ProcFs& proc, int pid, int child);

}  // namespace heapsnap
