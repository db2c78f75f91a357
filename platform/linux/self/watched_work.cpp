#include "platform/linux/self/watched_work.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "platform/linux/proc/blocking_call.h"
#include "platform/linux/proc/cgroup_limits.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/proc/process_status.h"

namespace heapsnap {

namespace {

// How many times to look while patience lasts.
constexpr int kLooksAtWork = 10;
constexpr std::chrono::milliseconds kLongestTick{250};
// Time for the child to give up by itself (copy_watch.h) before it is killed.
constexpr std::chrono::milliseconds kGrace{500};
constexpr std::array kPassedToChild{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  for (const int signal : kPassedToChild) ::sigaddset(&set, signal);
  return set;
}

// Detects a call that has kept the worker for too long.
class Patience {
 public:
  explicit Patience(const CallBoard& calls) : calls_(calls) {}

  // How long to wait until the next look.
  std::chrono::milliseconds tick() const { return std::min(limit() / kLooksAtWork, kLongestTick); }

  // To be called after each `tick`. Time is counted in ticks: while we are stopped, so is the
  // worker.
  bool has_run_out(std::chrono::milliseconds tick) {
    const uint64_t count = calls_.state().count.load(std::memory_order_acquire);
    const bool is_same = count % 2 != 0 && count == count_;
    count_ = count;
    waited_ = is_same && is_asleep() ? waited_ + tick : std::chrono::milliseconds(0);
    return waited_ >= limit();
  }

 private:
  std::chrono::milliseconds limit() const {
    return std::chrono::milliseconds(calls_.state().patience_ms) + kGrace;
  }
  // It neither runs nor is stopped.
  bool is_asleep() const {
    const auto task = ProcFs().try_stat(calls_.state().tid);
    return task && (task->state == 'D' || task->state == 'S');
  }

  const CallBoard& calls_;
  uint64_t count_ = 0;
  std::chrono::milliseconds waited_{0};
};

timespec as_timespec(std::chrono::milliseconds duration) {
  const auto nanoseconds = std::chrono::nanoseconds(duration % std::chrono::seconds(1));
  return {std::chrono::duration_cast<std::chrono::seconds>(duration).count(), nanoseconds.count()};
}

Error end_of_patience(const CallBoard& calls) {
  const char* const what = calls.state().what;
  return Error(ErrorKind::kUnsupported, std::string(what) + " did not finish",
               "one of its pages is provided by a process or server that does not respond "
               "(userfaultfd(2), FUSE, NFS); heapsnap gave up after " +
                   std::to_string(calls.state().patience_ms) + " ms",
               "try again when that process or server responds");
}

// How many processes the OOM killer has ended on this machine, in whatever control group.
uint64_t oom_kills() {
  return cgroup_statistic(kernel_text_or_empty("/proc/vmstat"), "oom_kill");
}

Error killed_for_memory() {
  const std::string what = "heapsnap was killed";
  std::string cause = "by SIGKILL, while the kernel's OOM killer ended a process";
  const auto limit = read_cgroup_limits(::getpid(), {}).memory;
  if (!limit) {
    return {ErrorKind::kUnsupported, what, cause, "free some memory on this machine and try again"};
  }
  cause += ": the control group " + limit->group + " may have " +
           std::to_string(limit->limit >> 20) + " MiB";
  return {ErrorKind::kUnsupported, what, cause,
          "raise the limit of that group, or run heapsnap outside it, and try again"};
}

[[noreturn]] void end_like(int status) {
  if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
  // End the same way for the process that waits for us.
  const int signal = WTERMSIG(status);
  ::prctl(PR_SET_DUMPABLE, 0);  // one core is enough
  ::signal(signal, SIG_DFL);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

// Waits for the child and passes signals on to it.
[[noreturn]] void watch_child(pid_t child, const CallBoard& calls, const sigset_t& signals) {
  Patience patience(calls);
  const uint64_t kills_before = oom_kills();
  while (true) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      const bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      if (is_killed && oom_kills() > kills_before) throw killed_for_memory();
      end_like(status);
    }
    siginfo_t info{};
    const auto tick = patience.tick();
    const timespec time = as_timespec(tick);
    const int signal = ::sigtimedwait(&signals, &info, &time);
    // The kernel sends the terminal's signals to the child as well.
    if (signal > 0 && signal != SIGCHLD && info.si_code <= 0) ::kill(child, signal);
    if (signal > 0 || !patience.has_run_out(tick)) continue;
    ::kill(child, SIGKILL);
    throw end_of_patience(calls);
  }
}

// Runs until the parent ends, when PR_SET_PDEATHSIG ends us too. Only SIGKILL ends us before that.
[[noreturn]] void watch_parent(pid_t parent, const CallBoard& calls) {
  Patience patience(calls);
  while (true) {
    const auto tick = patience.tick();
    const timespec time = as_timespec(tick);
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
    if (!patience.has_run_out(tick)) continue;
    ::prctl(PR_SET_PDEATHSIG, 0);  // we still have an error to report
    if (::getppid() != parent) ::_exit(EXIT_FAILURE);
    ::kill(parent, SIGKILL);
    throw end_of_patience(calls);
  }
}

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

// Whether we may trace a process that a child of ours may not: one of our descendants, which can
// only come from the program that executed heapsnap.
bool may_trace_more_than_a_child() {
  if (!has_children()) return false;
  const auto scope = read_kernel_text("/proc/sys/kernel/yama/ptrace_scope");
  if (!scope || trimmed(*scope) != "1") return false;
  const auto self = read_process_status(ProcFs(), ::getpid());
  return !self || (self->capabilities_effective & kCapSysPtrace) == 0;
}

}  // namespace

int do_watched(const std::function<int()>& work) {
  if (may_trace_more_than_a_child()) return do_watched_by_child(work);
  CallBoard calls;
  const sigset_t signals = watched_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  ::signal(SIGCHLD, SIG_DFL);  // if ignored, children could not be waited for
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child > 0) watch_child(child, calls, signals);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(EXIT_FAILURE);
    calls.use();
  }
  return work();
}

int do_watched_by_child(const std::function<int()>& work) {
  CallBoard calls;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(EXIT_FAILURE);
    watch_parent(parent, calls);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child > 0) calls.use();
  return work();
}

}  // namespace heapsnap
