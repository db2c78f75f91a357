#include "tests/live/stepped_process.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "platform/linux/self/realtime_priority.h"
#include "tests/live/forked_child.h"

namespace heapsnap::live {

namespace {

// Stops this process, its threads and its children before each call that acts on others, for their
// tracer to see. One that stopped at every call would take most of the time for stops in between.
void stop_at_acts() {
  constexpr std::array<uint32_t, 7> kActs{
      SYS_ptrace,   SYS_process_vm_writev, SYS_kill, SYS_tgkill, SYS_write,
      SYS_pwrite64, SYS_sched_setscheduler};
  std::vector<sock_filter> code{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const uint32_t number : kActs) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (::geteuid() != 0) ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    throw std::runtime_error("cannot filter the calls of a child of ours");
  }
}

// The process that a thread belongs to.
pid_t process_of(pid_t tid) {
  std::ifstream status("/proc/" + std::to_string(tid) + "/status");
  std::string word;
  while (status >> word && word != "Tgid:") {
  }
  pid_t process = 0;
  if (!(status >> process)) throw std::runtime_error("lost a thread of the process");
  return process;
}

struct End {
  int status = 0;  // as of waitpid
  bool came_to_step = false;
  int steps = 0;
};

constexpr int kEachStep = 0;

End run_stepped(int step, const std::function<int()>& body, const std::function<void(pid_t)>& act) {
  const pid_t process = run_in_child([&body] {
    ::raise(SIGSTOP);
    stop_at_acts();
    return body();
  });
  int status = 0;
  ::waitpid(process, &status, WUNTRACED);
  if (::ptrace(PTRACE_SEIZE, process, nullptr,
               PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE |
                   PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL) != 0) {
    throw std::runtime_error("cannot trace a child of ours");
  }
  ::kill(process, SIGCONT);
  // Two processors may be busy with a thread of the target that inherits heapsnap's priority and
  // with the one that waits for it: we would come to our turn after seconds.
  const RealtimePriority priority;
  End end;
  while (true) {
    // Only its threads, its children and itself: the group is that of its own pid, so name each by
    // waiting for any child and passing over the others. The process itself comes last.
    const pid_t tid = ::waitpid(-1, &status, __WALL);
    if (tid < 0) throw std::runtime_error("lost the process");
    if (!WIFSTOPPED(status)) {
      if (tid != process) continue;
      end.status = status;
      return end;
    }
    int signal = WSTOPSIG(status);
    auto resume = PTRACE_CONT;
    if (signal == (SIGTRAP | 0x80)) {  // the end of an act
      signal = 0;
      ++end.steps;
      if (step == end.steps || step == kEachStep) {
        end.came_to_step = true;
        act(process_of(tid));
      }
    } else if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) {
      signal = 0;
      resume = PTRACE_SYSCALL;
    } else if (status >> 16 != 0 || signal == SIGTRAP) {
      signal = 0;  // an event, or a new thread at its beginning
    }
    ::ptrace(resume, tid, nullptr, signal);
  }
}

[[noreturn]] void fail_of(int status) {
  throw std::runtime_error("the process did not end well: " +
                           (WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                                              : "signal " + std::to_string(WTERMSIG(status))));
}

}  // namespace

std::optional<int> act_after_step(int step, const std::function<int()>& body,
                                  const std::function<void()>& act) {
  const End end = run_stepped(step, body, [&](pid_t) { act(); });
  if (!WIFEXITED(end.status)) fail_of(end.status);
  if (!end.came_to_step) return std::nullopt;
  return WEXITSTATUS(end.status);
}

std::optional<int> end_after_step(int step, const std::function<int()>& body,
                                  const std::function<void(pid_t)>& act) {
  const End end = run_stepped(step, body, act);
  if (!end.came_to_step) return std::nullopt;
  return end.status;
}

int act_after_each_step(const std::function<int()>& body, const std::function<void()>& act) {
  const End end = run_stepped(kEachStep, body, [&](pid_t) { act(); });
  if (!WIFEXITED(end.status) || WEXITSTATUS(end.status) != 0) fail_of(end.status);
  return end.steps;
}

bool kill_after_step(int step, const std::function<void()>& body) {
  const auto counted = [&body] {
    body();
    return 0;
  };
  const End end = run_stepped(step, counted, [](pid_t process) { ::kill(process, SIGKILL); });
  if (!end.came_to_step && (!WIFEXITED(end.status) || WEXITSTATUS(end.status) != 0)) {
    fail_of(end.status);
  }
  return end.came_to_step;
}

}  // namespace heapsnap::live
