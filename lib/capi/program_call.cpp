// Freestanding, as heapsnap.cpp: libc alone, no exceptions, no allocation.

#include "capi/program_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

namespace heapsnap {

namespace {

struct Child {
  const char* program;
  char* const* arguments;
  int gate;         // read end of its standard input: it starts to work at a byte or the end
  int errors;       // write end of its standard error
  int output;       // its standard output, or -1 for /dev/null
  char* stack;      // top of the memory that start_program() runs on
  long seconds;     // that it may take
  int start_errno;  // why it could not be started; 0 when it was
  int wait_errno;   // why its end could not be awaited; 0 when it was
  bool timed_out;   // it did not end by itself
  int status;       // as wait(2) gives it
};

// The host's handlers, which would run in its own memory from the child; exec(2) resets them too
// late. The table is the child's own (no CLONE_SIGHAND).
void drop_signal_handlers() {
  for (int signal_number = 1; signal_number < _NSIG; ++signal_number) {
    struct sigaction action;
    if (sigaction(signal_number, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) continue;
    action.sa_handler = SIG_DFL;
    action.sa_flags = 0;
    sigaction(signal_number, &action, nullptr);
  }
}

// The host's descriptors that exec(2) would leave open. Not by close_range(2): where a seccomp
// filter answers a call that it does not know with a signal, that would end us.
void close_inherited() {
  struct Entry {
    uint64_t inode;
    int64_t next;
    unsigned short size;
    unsigned char type;
    char name[1];
  };
  const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // without /proc the program can do nothing but say so
  alignas(Entry) char entries[4096];
  for (;;) {
    const long size = syscall(SYS_getdents64, folder, entries, sizeof entries);
    if (size <= 0) break;
    for (long at = 0; at < size;) {
      const auto* const entry = reinterpret_cast<const Entry*>(entries + at);
      const int fd = atoi(entry->name);
      if (fd > STDERR_FILENO && fd != folder) close(fd);
      at += entry->size;
    }
  }
  close(folder);
}

// Runs on a stack of its own in the caller's memory (CLONE_VM), with all signals blocked: nothing
// but system calls here.
int start_program(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  // The one that waits for it may be ended by a filter of the host. (A parent that is gone already
  // leaves it to itself: it ends with the dump.)
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int output = child.output >= 0 ? child.output : null;
  // A source that is the wanted number already would keep its close-on-exec flag; dup2 of others
  // clears it. Pipes made by the parent are above 2 unless the host closed its standard streams.
  if (dup2(child.gate, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
      dup2(child.errors, STDERR_FILENO) < 0) {
    child.start_errno = errno;
    _exit(kCannotStart);
  }
  close_inherited();
  drop_signal_handlers();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(child.program, child.arguments);
  child.start_errno = errno;
  _exit(kCannotStart);
}

long monotonic_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

// Waits until `pid` ends, `seconds` at most. True when it was reaped, or when waiting is not
// possible.
bool reap(pid_t pid, long seconds, Child& child) {
  const long end = monotonic_seconds() + seconds;
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  for (;;) {
    const long result = syscall(SYS_wait4, pid, &child.status, WNOHANG, nullptr);
    if (result < 0) child.wait_errno = errno;
    if (result != 0) return true;
    const long left = end - monotonic_seconds();
    if (left <= 0) return false;
    const timespec time{left, 0};
    // All signals are blocked here. Where the call is barred, look again soon.
    constexpr int kSoon = 20;  // ms
    if (syscall(SYS_rt_sigtimedwait, &ended, nullptr, &time, _NSIG / 8) < 0) {
      poll(nullptr, 0, kSoon);
    }
  }
}

// Stands between the host and the program, in the host's memory. A program that execs sends SIGCHLD
// to its parent when it ends, whatever signal it was cloned with (fs/exec.c, de_thread()): this is
// its parent, and itself, which never execs, ends with no signal. It shares the host's table of
// descriptors, so it keeps none open that the host closes.
int start_and_wait(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  // Where the host ignores SIGCHLD, the kernel would throw the exit status away.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, nullptr);
  // Without CLONE_VFORK, which nothing but SIGKILL ends: exec may wait for a file system.
  const pid_t pid = clone(start_program, child.stack, CLONE_VM | SIGCHLD, argument);
  if (pid < 0) {
    child.start_errno = errno;
    _exit(0);
  }
  if (!reap(pid, child.seconds, child)) {
    child.timed_out = true;
    kill(pid, SIGTERM);
    if (!reap(pid, kGraceSeconds, child)) {
      kill(pid, SIGKILL);
      reap(pid, kGraceSeconds, child);
    }
  }
  _exit(0);
}

// Pipe whose ends are above 2, so that the child can put them where it wants.
bool make_pipe(int ends[2], int flags) {
  int low[2];
  if (pipe2(low, O_CLOEXEC | flags) != 0) return false;
  ends[0] = fcntl(low[0], F_DUPFD_CLOEXEC, 3);
  ends[1] = fcntl(low[1], F_DUPFD_CLOEXEC, 3);
  close(low[0]);
  close(low[1]);
  if (ends[0] >= 0 && ends[1] >= 0) return true;
  close(ends[0]);
  close(ends[1]);
  return false;
}

constexpr size_t kStackSize = 64 * 1024;

// Starts the process between, on the lower half of `stacks`. Gives its pid, or -1 with errno.
pid_t clone_between(Child& child, char* stacks) {
  child.stack = stacks + 2 * kStackSize;
  // It shares our memory: a signal handler of the host must not run there.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = clone(start_and_wait, stacks + kStackSize, CLONE_VM | CLONE_FILES, &child);
  const int error_number = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error_number;
  return pid;
}

// Reads what the program has said on its standard error. It has ended, but others may hold the pipe
// open (what it started, children that the host forked meanwhile): the end is not waited for.
void collect_errors(int fd, ErrorText& error) {
  size_t used = 0;
  while (used + 1 < sizeof error.text) {
    const ssize_t got = read(fd, error.text + used, sizeof error.text - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    used += static_cast<size_t>(got);
  }
  error.text[used] = '\0';
}

// Waits for the process between. False when that is not possible: it may run still.
bool wait_for(pid_t between, int* status) {
  for (;;) {
    const pid_t waited = waitpid(between, status, __WALL);
    if (waited == between) return true;
    if (errno == EINTR) continue;
    // Somebody else in the host has reaped it (waitpid(-1, ..., __WALL)).
    *status = 0;
    return errno == ECHILD;
  }
}

// " (why)" of a signal that ended one of the two.
const char* reason_of(int signal_number) {
  return signal_number == SIGSYS ? " (SIGSYS): a seccomp filter bars a system call that it needs"
                                 : "";
}

// What came of it, as the result of a call. `error` holds what the program said.
int result_of(const Child& child, bool reaped, int between_status, ErrorText& error) {
  if (!reaped) {
    error.set("cannot wait for heapsnap", errno);
  } else if (WIFSIGNALED(between_status)) {
    const int signal_number = WTERMSIG(between_status);
    snprintf(error.text, sizeof error.text,
             "the process that waits for heapsnap was ended by signal %d%s", signal_number,
             reason_of(signal_number));
  } else if (child.start_errno != 0) {
    error.set(child.program, child.start_errno);
  } else if (child.wait_errno != 0) {
    error.set("cannot wait for heapsnap", child.wait_errno);
  } else if (child.timed_out) {
    snprintf(error.text, sizeof error.text,
             "heapsnap did not end within %ld seconds and was ended\n"
             "  do:  set HEAPSNAP_TIMEOUT to the seconds that it may take",
             child.seconds);
  } else if (WIFSIGNALED(child.status)) {
    const int signal_number = WTERMSIG(child.status);
    snprintf(error.text, sizeof error.text, "heapsnap was ended by signal %d%s", signal_number,
             reason_of(signal_number));
  } else {
    const int code = WEXITSTATUS(child.status);
    if (code == 0) {
      error.text[0] = '\0';
    } else if (error.text[0] == '\0') {
      snprintf(error.text, sizeof error.text, "heapsnap ended with exit code %d", code);
    }
    return code;
  }
  return kCannotStart;
}

}  // namespace

void ErrorText::set(const char* what, int error_number) {
  snprintf(text, sizeof text, "%.1024s: %s", what, strerror(error_number));
}

int call_program(const ProgramCall& call, ErrorText& error) {
  int gate[2];
  int errors[2];
  if (!make_pipe(gate, 0)) {
    error.set("cannot make a pipe", errno);
    return kCannotStart;
  }
  // Nobody reads while the program writes: what the pipe does not hold is lost.
  if (!make_pipe(errors, O_NONBLOCK)) {
    error.set("cannot make a pipe", errno);
    close(gate[0]);
    close(gate[1]);
    return kCannotStart;
  }
  void* stacks = mmap(nullptr, 2 * kStackSize, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stacks == MAP_FAILED) {
    error.set("cannot start heapsnap", errno);
    for (const int end : {gate[0], gate[1], errors[0], errors[1]}) close(end);
    return kCannotStart;
  }
  Child child{};
  child.program = call.program;
  child.arguments = call.arguments;
  child.gate = gate[0];
  child.errors = errors[1];
  child.output = call.output;
  child.seconds = call.seconds;
  int result = kCannotStart;
  bool left_stacks = true;
  const pid_t between = clone_between(child, static_cast<char*>(stacks));
  if (between < 0) {
    error.set(call.program, errno);
  } else {
    // Yama lets only ancestors trace; this call names the one exception, with its descendants
    // (prctl(2)). Where there is no Yama it fails with EINVAL and is not needed.
    prctl(PR_SET_PTRACER, static_cast<unsigned long>(between), 0, 0, 0);
    // A byte, not only the end: a child that another thread forks now keeps the pipe open. It
    // cannot raise SIGPIPE, since the read end is open here too.
    const char begin = 0;
    while (write(gate[1], &begin, 1) < 0 && errno == EINTR) {
    }
    close(gate[1]);
    gate[1] = -1;
    int status = 0;
    const bool reaped = wait_for(between, &status);
    const int wait_errno = errno;
    prctl(PR_SET_PTRACER, 0, 0, 0, 0);
    collect_errors(errors[0], error);
    errno = wait_errno;
    result = result_of(child, reaped, status, error);
    // Else the program may stand before its exec, on its stack.
    left_stacks = reaped && !WIFSIGNALED(status);
  }
  for (const int end : {gate[0], gate[1], errors[0], errors[1]}) {
    if (end >= 0) close(end);
  }
  if (left_stacks) munmap(stacks, 2 * kStackSize);
  return result;
}

}  // namespace heapsnap
