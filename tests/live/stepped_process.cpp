#include "tests/live/stepped_process.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>

#include "tests/live/forked_child.h"

namespace heapsnap::live {

namespace {

bool acts_on_others(uint64_t number) {
  constexpr std::array<uint64_t, 7> kActs{
      SYS_ptrace,   SYS_process_vm_writev, SYS_kill, SYS_tgkill, SYS_write,
      SYS_pwrite64, SYS_sched_setscheduler};
  return std::find(kActs.begin(), kActs.end(), number) != kActs.end();
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
    return body();
  });
  int status = 0;
  ::waitpid(process, &status, WUNTRACED);
  if (::ptrace(PTRACE_SEIZE, process, nullptr,
               PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                   PTRACE_O_EXITKILL) != 0) {
    throw std::runtime_error("cannot trace a child of ours");
  }
  ::kill(process, SIGCONT);
  End end;
  std::map<pid_t, bool> entered_act;
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
    if (signal == (SIGTRAP | 0x80)) {
      signal = 0;
      __ptrace_syscall_info info{};
      ::ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info);
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        entered_act[tid] = acts_on_others(info.entry.nr);
      } else if (entered_act[tid]) {
        ++end.steps;
        if (step == end.steps || step == kEachStep) {
          end.came_to_step = true;
          act(process_of(tid));
        }
      }
    } else if (status >> 16 != 0 || signal == SIGTRAP) {
      signal = 0;  // an event, or a new thread at its beginning
    }
    ::ptrace(PTRACE_SYSCALL, tid, nullptr, signal);
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
