// Asks the kernel itself whether a process may be attached to, without doing anything to it.
//
// process_vm_readv(2) passes the very check that PTRACE_SEIZE passes (ptrace_may_access with
// PTRACE_MODE_ATTACH_REALCREDS: ids, capabilities, dumpable, Yama, security modules) before it
// looks at the memory. So reading one byte at address 0, where nothing is mapped, tells:
//
//   EPERM  refused       EFAULT  permitted       ESRCH  gone, a zombie or a kernel thread
//
// Whether a seccomp filter of our own bars the calls is tried in a child of ours: a filter may
// kill.
#pragma once

#include <cstdint>

namespace heapsnap {

enum class Access : uint8_t { kUnknown, kPermitted, kRefused, kNoMemory };

enum class Availability : uint8_t { kUnknown, kAvailable, kBarred, kMissing };

struct OwnSyscalls {
  Availability ptrace = Availability::kUnknown;
  Availability process_vm_readv = Availability::kUnknown;  // kMissing: not in this kernel
};

Access probe_access(int pid);
OwnSyscalls probe_own_syscalls();

}  // namespace heapsnap
