#include "platform/linux/started_command.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "base/unique_fd.h"
#include "platform/linux/proc_fs.h"

namespace heapsnap {

namespace {

// What other programs send to make a program do something. Not among them: signals of job control,
// which stop heapsnap together with the program, and those that tell of heapsnap's own faults.
constexpr int kPassedOn[] = {SIGHUP,  SIGINT,  SIGQUIT,  SIGUSR1, SIGUSR2,
                             SIGTERM, SIGALRM, SIGWINCH, SIGIO,   SIGPWR};

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

// One int from a pipe; nothing when its other end was closed.
std::optional<int> read_int(int fd) {
  int value = 0;
  ssize_t got;
  do {
    got = ::read(fd, &value, sizeof value);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof value) return std::nullopt;
  return value;
}

bool is_job_control_stop(int signal) {
  return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
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
  Pipe ready;    // closed when the child may go on
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
    if (options.stop_at_exit) trace();
  } catch (...) {
    ::kill(pid_, SIGKILL);  // it is ours alone still
    ::waitpid(pid_, nullptr, __WALL);
    throw;
  }
  ready.write_end.reset();
  const std::optional<int> error = read_int(refusal.read_end.get());
  if (!error) return;
  wait({});
  throw Error(ErrorKind::kUsage, "cannot run " + options.arguments.front(), errno_text(*error));
}

// In the child. Only one thread of heapsnap exists here, and it does not return.
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
  ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  const ssize_t written = ::write(refusal, &error, sizeof error);
  ::_exit(written == sizeof error ? 127 : 126);
}

void StartedCommand::trace() {
  constexpr unsigned long kOptions = PTRACE_O_TRACEEXIT | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
  if (::ptrace(PTRACE_SEIZE, pid_, nullptr, kOptions) != 0) {
    throw Error(ErrorKind::kNotPermitted, "cannot watch the exit of the program", errno_text(errno),
                "leave --at-exit out, or allow ptrace for it");
  }
  is_traced_ = true;
  threads_.insert(pid_);
}

bool StartedCommand::belongs_to_command(pid_t tid) const {
  const std::vector<int> tids = ProcFs().task_list(pid_);
  return std::find(tids.begin(), tids.end(), tid) != tids.end();
}

// One schedule to mind: another thread calls exit_group while this one is on its way out by itself;
// both stop in their exit, in any order. Whoever comes last has nobody left in threads_.
void StartedCommand::on_exit_stop(pid_t tid, const std::function<void()>& at_exit) {
  threads_.erase(tid);
  if (!threads_.empty() || was_at_exit_) return;
  was_at_exit_ = true;
  if (at_exit) at_exit();
}

void StartedCommand::on_stop(pid_t tid, int status, const std::function<void()>& at_exit) {
  const int signal = WSTOPSIG(status);
  const int event = status >> 16;
  if (threads_.count(tid) == 0 && event != PTRACE_EVENT_EXIT) {
    // The first stop of a thread may come before its maker tells of it. A process made by a clone
    // that is no fork is none of ours.
    if (!belongs_to_command(tid)) {
      ::ptrace(PTRACE_DETACH, tid, nullptr, nullptr);
      return;
    }
    threads_.insert(tid);
  }
  long passed_on = 0;
  switch (event) {
    case 0: passed_on = signal; break;
    case PTRACE_EVENT_STOP:
      if (is_job_control_stop(signal)) {
        ::ptrace(PTRACE_LISTEN, tid, nullptr, nullptr);
        return;
      }
      break;
    case PTRACE_EVENT_EXEC: threads_ = {tid}; break;  // the other threads are gone
    case PTRACE_EVENT_EXIT: on_exit_stop(tid, at_exit); break;
    default: break;
  }
  ::ptrace(PTRACE_CONT, tid, nullptr, passed_on);
}

bool StartedCommand::reap(const std::function<void()>& at_exit) {
  for (;;) {
    int status = 0;
    const pid_t tid = ::waitpid(is_traced_ ? -1 : pid_, &status, WNOHANG | __WALL);
    if (tid <= 0) return status_.has_value();
    if (WIFSTOPPED(status)) {
      on_stop(tid, status, at_exit);
    } else if (tid == pid_) {
      status_ = status;
    } else {
      threads_.erase(tid);
    }
  }
}

int StartedCommand::wait(const std::function<void()>& at_exit) {
  while (!reap(at_exit)) {
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&waited_, &info);
    // A terminal's signal went to all of its foreground processes.
    if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) ::kill(pid_, signal);
  }
  return WIFSIGNALED(*status_) ? 128 + WTERMSIG(*status_) : WEXITSTATUS(*status_);
}

}  // namespace heapsnap
