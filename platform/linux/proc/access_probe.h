// Asks the kernel whether a process may be attached to, without doing anything to it.
//
// process_vm_readv(2) makes the same check as PTRACE_SEIZE (ptrace_may_access with
// PTRACE_MODE_ATTACH_REALCREDS: ids, capabilities, dumpable, Yama, security modules) before it
// looks at the memory. So a read of one byte at address 0, where nothing is mapped, fails with:
//
//   EPERM  refused       EFAULT  permitted       ESRCH  gone, a zombie or a kernel thread
//
// Whether a seccomp filter bars these calls to heapsnap itself is tried in a child process, since
// the filter may kill the caller.
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
