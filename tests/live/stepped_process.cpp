#include "tests/live/stepped_process.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <string>

namespace heapsnap::live {

namespace {

bool acts_on_others(uint64_t number) {
  constexpr std::array<uint64_t, 7> kActs{
      SYS_ptrace,   SYS_process_vm_writev, SYS_kill, SYS_tgkill, SYS_write,
      SYS_pwrite64, SYS_sched_setscheduler};
  return std::find(kActs.begin(), kActs.end(), number) != kActs.end();
}

}  // namespace

bool kill_after_step(int step, const std::function<void()>& body) {
  const pid_t process = ::fork();
  if (process == 0) {
    ::raise(SIGSTOP);
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(process, &status, WUNTRACED);
  if (::ptrace(PTRACE_SEIZE, process, nullptr,
               PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) != 0) {
    throw std::runtime_error("cannot trace a child of ours");
  }
  ::kill(process, SIGCONT);
  int acts = 0;
  std::map<pid_t, bool> entered_act;
  while (true) {
    // Only its threads and itself: the group is that of its own pid, so name each by waiting for
    // any child and passing over the others.
    const pid_t tid = ::waitpid(-1, &status, __WALL);
    if (tid < 0) throw std::runtime_error("lost the process");
    if (!WIFSTOPPED(status)) {
      if (tid != process) continue;
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        throw std::runtime_error("the process did not end well: " +
                                 (WIFEXITED(status)
                                      ? "exit code " + std::to_string(WEXITSTATUS(status))
                                      : "signal " + std::to_string(WTERMSIG(status))) +
                                 " after " + std::to_string(acts) + " acts");
      }
      return false;
    }
    int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      signal = 0;
      __ptrace_syscall_info info{};
      ::ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info);
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        entered_act[tid] = acts_on_others(info.entry.nr);
      } else if (entered_act[tid] && ++acts == step) {
        ::kill(process, SIGKILL);
        // Its threads have to be waited for one by one; the process itself comes last.
        pid_t ended = 0;
        do {
          ended = ::waitpid(-1, &status, __WALL);
        } while (ended > 0 && (ended != process || WIFSTOPPED(status)));
        return true;
      }
    } else if (status >> 16 != 0 || signal == SIGTRAP) {
      signal = 0;  // an event, or a new thread at its beginning
    }
    ::ptrace(PTRACE_SYSCALL, tid, nullptr, signal);
  }
}

}  // namespace heapsnap::live
