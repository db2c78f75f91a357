#include "platform/linux/proc/access_probe.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace heapsnap {

namespace {

// Reads one byte of `pid` at `from`. Returns errno, or 0 on success.
int read_one_byte(int pid, void* from) {
  char byte = 0;
  const iovec local{&byte, 1};
  const iovec remote{from, 1};
  // libc's wrapper passes every argument at full width; syscall(2) leaves the upper half of an int
  // undefined.
  return ::process_vm_readv(pid, &local, 1, &remote, 1, 0) < 0 ? errno : 0;
}

int try_process_vm_readv() {
  char byte = 0;
  return read_one_byte(::getpid(), &byte);
}

// No process has pid -1, so a ptrace call that gets past any filter fails with ESRCH.
int try_ptrace() {
  ::syscall(SYS_ptrace, PTRACE_CONT, -1, 0, 0);
  return errno == ESRCH ? 0 : errno;
}

// Calls `attempt` in a child, since a filter may kill the caller. SIGSYS kills the child quietly:
// it has no handler, and its core, if any, is of no interest.
Availability in_child(int (*attempt)()) {
  const pid_t child = ::fork();
  if (child < 0) return Availability::kUnknown;
  if (child == 0) {
    // The exit status has eight bits, enough for any errno of these calls.
    ::_exit(attempt());
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return Availability::kUnknown;
  }
  if (WIFSIGNALED(status)) return Availability::kBarred;
  if (!WIFEXITED(status)) return Availability::kUnknown;
  switch (WEXITSTATUS(status)) {
    case 0: return Availability::kAvailable;
    case ENOSYS: return Availability::kMissing;
    default: return Availability::kBarred;
  }
}

}  // namespace

Access probe_access(int pid) {
  switch (read_one_byte(pid, nullptr)) {
    case 0:
    case EFAULT: return Access::kPermitted;
    case EPERM:
    case EACCES: return Access::kRefused;
    case ESRCH: return Access::kNoMemory;
    default: return Access::kUnknown;
  }
}

OwnSyscalls probe_own_syscalls() {
  return {in_child(try_ptrace), in_child(try_process_vm_readv)};
}

}  // namespace heapsnap
