#include "platform/linux/freeze/started_command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "base/unique_fd.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/self/nap.h"

namespace heapsnap {

namespace {

// Signals with which programs make each other act. Not among them: those of job control, which stop
// heapsnap together with the program, and those that report heapsnap's own faults.
constexpr int kPassedOn[] = {SIGHUP,  SIGINT,  SIGQUIT,  SIGUSR1, SIGUSR2,
                             SIGTERM, SIGALRM, SIGWINCH, SIGIO,   SIGPWR};

constexpr std::chrono::milliseconds kLookAtStopped{20};

struct Pipe {
  UniqueFd read_end, write_end;

  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw Error(ErrorKind::kInternal, "cannot make a pipe", errno_text(errno));
    }
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
};

// One int from a pipe; nullopt if its other end was closed.
std::optional<int> read_int(int fd) {
  int value = 0;
  ssize_t got;
  do {
    got = ::read(fd, &value, sizeof value);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof value) return std::nullopt;
  return value;
}

}  // namespace

StartedCommand::StartedCommand(const Options& options) {
  ::sigemptyset(&waited_);
  ::sigaddset(&waited_, SIGCHLD);
  for (const int signal : kPassedOn) ::sigaddset(&waited_, signal);
  ::pthread_sigmask(SIG_BLOCK, &waited_, &old_mask_);
  try {
    start(options);
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
    throw;
  }
}

StartedCommand::~StartedCommand() {
  ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void StartedCommand::start(const Options& options) {
  Pipe ready;    // closed when the child may continue
  Pipe refusal;  // the errno of its execve, or closed by it
  pid_ = ::fork();
  if (pid_ < 0) {
    throw Error(ErrorKind::kInternal, "cannot start a process", errno_text(errno));
  }
  if (pid_ == 0) {
    ready.write_end.reset();
    become(options, ready.read_end.get(), refusal.write_end.get());
  }
  refusal.write_end.reset();
  try {
    if (options.hold_at_end) watch_ = std::make_unique<EndWatch>(pid_);
  } catch (...) {
    ::kill(pid_, SIGKILL);  // it is still ours alone
    ::waitpid(pid_, nullptr, __WALL);
    throw;
  }
  ready.write_end.reset();
  const std::optional<int> error = read_int(refusal.read_end.get());
  if (!error) return;
  wait({});
  throw Error(ErrorKind::kUsage, "cannot run " + options.arguments.front(), errno_text(*error),
              "check that there is a program of that name, and that you may execute it");
}

// In the child. Only one thread of heapsnap exists here, and this does not return.
void StartedCommand::become(const Options& options, int ready, int refusal) {
  for (const auto& [name, value] : options.environment) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  if (!options.pid_variable.empty()) {
    ::setenv(options.pid_variable.c_str(), std::to_string(::getpid()).c_str(), 1);
  }
  std::vector<char*> arguments;
  for (const std::string& one : options.arguments) {
    arguments.push_back(const_cast<char*>(one.c_str()));
  }
  arguments.push_back(nullptr);
  read_int(ready);
  std::signal(SIGPIPE, SIG_DFL);  // which heapsnap ignores
  std::signal(SIGXFSZ, SIG_DFL);  // the same
  ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  const ssize_t written = ::write(refusal, &error, sizeof error);
  ::_exit(written == sizeof error ? 127 : 126);
}

void StartedCommand::hold(pid_t tid, const std::function<void(ProgramEnd&)>& at_end) {
  end_ = watch_->on_stop(tid);
  if (!end_) return;
  watch_.reset();
  if (at_end) at_end(*end_);
  if (end_->session && !end_->session->is_released()) end_->session->release();
}

bool StartedCommand::reap(const std::function<void(ProgramEnd&)>& at_end) {
  for (;;) {
    // A stop is left unconsumed: if heapsnap is killed, a signal in it is delivered (tracee.h).
    siginfo_t info{};
    const bool is_traced = watch_ != nullptr;
    const int waited = ::waitid(is_traced ? P_ALL : P_PID, static_cast<id_t>(pid_), &info,
                                (is_traced ? WSTOPPED : 0) | WEXITED | WNOHANG | WNOWAIT | __WALL);
    if (waited != 0 || info.si_pid == 0) break;
    if (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) {
      hold(info.si_pid, at_end);
      continue;
    }
    int status = 0;
    ::waitpid(info.si_pid, &status, __WALL);
    if (info.si_pid == pid_) {
      status_ = status;
      return true;
    }
    if (watch_) watch_->forget(info.si_pid);
  }
  if (end_) end_->collect();
  return false;
}

bool StartedCommand::is_stopped() const {
  const auto stat = ProcFs().try_stat(pid_);
  if (!stat) return false;
  // A traced one is in another state, and its stop signal shows (Linux 5.17).
  const bool has_stop_signal = stat->exit_code >= SIGSTOP && stat->exit_code <= SIGTTOU;
  return stat->state == 'T' || (stat->state == 't' && has_stop_signal);
}

// Another process watches for the program to continue: a stopped one cannot.
void StartedCommand::stop_with_it() {
  const pid_t parent = ::getpid();
  const pid_t waker = ::fork();
  if (waker < 0) return;
  if (waker == 0) {
    while (::getppid() == parent) {
      nap(kLookAtStopped);
      if (!is_stopped()) ::kill(parent, SIGCONT);
    }
    ::_exit(0);
  }
  ::raise(SIGSTOP);
  ::kill(waker, SIGKILL);
  ::waitpid(waker, nullptr, 0);
  if (is_stopped()) ::kill(pid_, SIGCONT);
}

int StartedCommand::wait(const std::function<void(ProgramEnd&)>& at_end) {
  while (!reap(at_end)) {
    if (is_stopped()) stop_with_it();
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&waited_, &info);
    // A terminal's signal went to all of its foreground processes.
    if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) ::kill(pid_, signal);
  }
  return WIFSIGNALED(*status_) ? 128 + WTERMSIG(*status_) : WEXITSTATUS(*status_);
}

}  // namespace heapsnap
