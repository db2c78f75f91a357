// Freestanding on purpose: it is loaded into other people's processes (PostgreSQL backends, Ruby),
// so it links against libc alone, throws nothing and allocates nothing.

#include "capi/heapsnap.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

namespace {

constexpr int kCannotStart = 127;

// Errors are reported to the calling thread; the buffer is part of its TLS, not of the heap.
thread_local char last_error[2048];

pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

void set_error(const char* what, int error_number) {
  snprintf(last_error, sizeof last_error, "%.1024s: %s", what, strerror(error_number));
}

// Finds the program; false when there is none at the place that comes first.
bool find_program(char* path, size_t size) {
  const char* chosen = getenv("HEAPSNAP_PROGRAM");
  if (chosen != nullptr && *chosen != '\0') {
    snprintf(path, size, "%s", chosen);
    return access(path, X_OK) == 0;
  }
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&heapsnap_dump_self), &info) != 0 &&
      info.dli_fname != nullptr) {
    const char* slash = strrchr(info.dli_fname, '/');
    if (slash != nullptr) {
      const int folder = static_cast<int>(slash - info.dli_fname);
      snprintf(path, size, "%.*s/../bin/heapsnap", folder, info.dli_fname);
      if (access(path, X_OK) == 0) return true;
    }
  }
  snprintf(path, size, "%s", HEAPSNAP_INSTALLED_PROGRAM);
  return access(path, X_OK) == 0;
}

struct Child {
  const char* program;
  char* const* arguments;
  int gate;         // read end of its standard input: it starts to work at end of file
  int errors;       // write end of its standard error
  int output;       // its standard output, or -1 for /dev/null
  char* stack;      // top of the memory that start_program() runs on
  int start_errno;  // why it could not be started; 0 when it was
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

// Runs on a stack of its own in the caller's memory (CLONE_VM), with all signals blocked: nothing
// but system calls here.
int start_program(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int output = child.output >= 0 ? child.output : null;
  // A source that is the wanted number already would keep its close-on-exec flag; dup2 of others
  // clears it. Pipes made by the parent are above 2 unless the host closed its standard streams.
  if (dup2(child.gate, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
      dup2(child.errors, STDERR_FILENO) < 0) {
    child.start_errno = errno;
    _exit(kCannotStart);
  }
  syscall(SYS_close_range, 3U, ~0U, 0U);
  drop_signal_handlers();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv(child.program, child.arguments);
  child.start_errno = errno;
  _exit(kCannotStart);
}

// Stands between the host and the program, in the host's memory. A program that execs sends SIGCHLD
// to its parent when it ends, whatever signal it was cloned with (fs/exec.c, de_thread()): this is
// its parent, and itself, which never execs, ends with no signal.
int start_and_wait(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  const pid_t pid = clone(start_program, child.stack, CLONE_VM | CLONE_VFORK | SIGCHLD, argument);
  if (pid < 0) child.start_errno = errno;
  // Its copies of the host's descriptors, the pipes among them.
  syscall(SYS_close_range, 0U, ~0U, 0U);
  if (pid > 0) syscall(SYS_wait4, pid, &child.status, 0, nullptr);
  _exit(0);
}

// Pipe whose ends are above 2, so that the child can put them where it wants.
bool make_pipe(int ends[2]) {
  int low[2];
  if (pipe2(low, O_CLOEXEC) != 0) return false;
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
  const pid_t pid = clone(start_and_wait, stacks + kStackSize, CLONE_VM, &child);
  const int error_number = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error_number;
  return pid;
}

// Reads what the program says on its standard error until it closes it.
void collect_errors(int fd) {
  size_t used = 0;
  char overflow[256];
  for (;;) {
    const bool full = used + 1 >= sizeof last_error;
    const ssize_t got = full ? read(fd, overflow, sizeof overflow)
                             : read(fd, last_error + used, sizeof last_error - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (!full) used += static_cast<size_t>(got);
  }
  last_error[used] = '\0';
}

// Runs the program with `arguments` (the first is its name) while it may trace this process.
int run_program(char* const* arguments, int output) {
  char program[PATH_MAX];
  if (!find_program(program, sizeof program)) {
    snprintf(last_error, sizeof last_error,
             "the program heapsnap is not at %.1024s; set HEAPSNAP_PROGRAM to its path", program);
    return kCannotStart;
  }
  int gate[2];
  int errors[2];
  if (!make_pipe(gate)) {
    set_error("cannot make a pipe", errno);
    return kCannotStart;
  }
  if (!make_pipe(errors)) {
    set_error("cannot make a pipe", errno);
    close(gate[0]);
    close(gate[1]);
    return kCannotStart;
  }
  void* stacks = mmap(nullptr, 2 * kStackSize, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stacks == MAP_FAILED) {
    set_error("cannot start heapsnap", errno);
    for (const int end : {gate[0], gate[1], errors[0], errors[1]}) close(end);
    return kCannotStart;
  }
  Child child{program, arguments, gate[0], errors[1], output, nullptr, 0, 0};
  const pid_t between = clone_between(child, static_cast<char*>(stacks));
  const int clone_errno = errno;
  close(gate[0]);
  close(errors[1]);
  // Yama lets only ancestors trace; this call names the one exception, with its descendants
  // (prctl(2)). Where there is no Yama it fails with EINVAL and is not needed.
  if (between > 0) prctl(PR_SET_PTRACER, static_cast<unsigned long>(between), 0, 0, 0);
  close(gate[1]);
  if (between > 0) {
    collect_errors(errors[0]);
    pid_t waited = 0;
    do {
      waited = waitpid(between, nullptr, __WALL);
    } while (waited < 0 && errno == EINTR);
    prctl(PR_SET_PTRACER, 0, 0, 0, 0);
  }
  close(errors[0]);
  munmap(stacks, 2 * kStackSize);
  if (between < 0 || child.start_errno != 0) {
    set_error(program, between < 0 ? clone_errno : child.start_errno);
    return kCannotStart;
  }
  if (WIFSIGNALED(child.status)) {
    snprintf(last_error, sizeof last_error, "heapsnap was ended by signal %d",
             WTERMSIG(child.status));
    return kCannotStart;
  }
  if (WEXITSTATUS(child.status) == 0) last_error[0] = '\0';
  return WEXITSTATUS(child.status);
}

// execv(3) takes `char* const*` for historical reasons and changes nothing.
char* word(const char* text) {
  return const_cast<char*>(text);
}

int attach_self(const char* path, bool contents) {
  char pid[16];
  snprintf(pid, sizeof pid, "%d", static_cast<int>(getpid()));
  char* const arguments[] = {word("heapsnap"),
                             word("attach"),
                             word("--start-at-eof"),
                             word("--quiet"),
                             word("-o"),
                             word(path),
                             word("--literal-name"),
                             word(pid),
                             contents ? word("--contents") : nullptr,
                             nullptr};
  return run_program(arguments, -1);
}

// One of the first dumper's functions: a snapshot beside `path`, its text appended to `path`.
void append_text(const char* path, const char* heaps) {
  pthread_mutex_lock(&one_at_a_time);
  char snapshot[PATH_MAX];
  const int length =
      snprintf(snapshot, sizeof snapshot, "%s.%d.hsnap", path, static_cast<int>(getpid()));
  if (length < 0 || static_cast<size_t>(length) >= sizeof snapshot) {
    set_error(path, ENAMETOOLONG);
  } else if (attach_self(snapshot, true) == 0) {
    const int output = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (output < 0) {
      set_error(path, errno);
    } else {
      char* const arguments[] = {word("heapsnap"),     word("export"),  word("--format"),
                                 word("ptmallocdump"), word("--heaps"), word(heaps),
                                 word(snapshot),       nullptr};
      run_program(arguments, output);
      close(output);
    }
    unlink(snapshot);
  }
  pthread_mutex_unlock(&one_at_a_time);
}

}  // namespace

extern "C" {

int heapsnap_dump_self(const char* path) {
  pthread_mutex_lock(&one_at_a_time);
  const int result = attach_self(path, false);
  pthread_mutex_unlock(&one_at_a_time);
  return result;
}

const char* heapsnap_last_error(void) {
  return last_error;
}

void dump_main_heap(const char* path, void* /*main_arena*/) {
  append_text(path, "main");
}

void dump_non_main_heaps(const char* path, void* /*main_arena*/) {
  append_text(path, "others");
}

}  // extern "C"
