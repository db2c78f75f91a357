// Whether two processes share one address space, as a child of vfork(2) or clone(CLONE_VM) does
// with its parent until it executes another program.
//
// kcmp(2) answers that. Where it is refused (seccomp filters of containers, kernels without
// CONFIG_KCMP), nothing else proves it without a change to that memory, but two things disprove it:
// a program executed since the child was created, and different figures of the address space
// (peaks, page counts, page tables). A forked child differs from its parent in these: its peaks
// start over, and fork does not copy the page tables of mapped files.
#pragma once

#include <cstdint>

#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

enum class CommonMemory : uint8_t { kNo, kPerhaps, kYes };

// For `pid` and a child of it that may be running.
CommonMemory common_memory(const ProcFs& proc, int pid, int child);

// Returns true only if the figures cannot be those of one address space: they differ, and those of
// `pid` were the same before and after those of `child` were read.
bool have_different_memory(const ProcFs& proc, int pid, int child);

}  // namespace heapsnap
