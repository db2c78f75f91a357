// Kinds with children, and ones that execute programs.
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "odd_process.h"

static atomic_int child_signals;
static atomic_int last_child;
static void count_child(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)context;
  atomic_store(&last_child, info->si_pid);
  atomic_fetch_add(&child_signals, 1);
}

static pid_t fork_child(int code) {
  const pid_t child = fork();
  if (child == 0) {
    churn();
    _exit(code);
  }
  EXPECT(child > 0);
  return child;
}

// As many signals as children, each with the right name.
static void child_handler(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = count_child;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGCHLD, &action, NULL);
  say_ready();
  for (int children = 1; !is_over(); ++children) {
    const pid_t child = fork_child(children % 100);
    int status = 0;
    EXPECT_EQUAL(waitpid(child, &status, 0), child);
    EXPECT_EQUAL(WEXITSTATUS(status), children % 100);
    EXPECT_EQUAL(atomic_load(&child_signals), children);
    EXPECT_EQUAL(atomic_load(&last_child), child);
    churn();
  }
}

// Children that nobody has to wait for.
static void no_child_wait(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_DFL;
  action.sa_flags = SA_NOCLDWAIT;
  sigaction(SIGCHLD, &action, NULL);
  say_ready();
  while (!is_over()) {
    fork_child(0);
    EXPECT(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    churn();
  }
}

// Waits for any child, with a child and without one.
static void waits_for_any(void) {
  say_ready();
  while (!is_over()) {
    const pid_t child = fork_child(7);
    int status = 0;
    EXPECT_EQUAL(waitpid(-1, &status, 0), child);
    EXPECT_EQUAL(WEXITSTATUS(status), 7);
    EXPECT(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    siginfo_t info;
    EXPECT(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == -1 && errno == ECHILD);
    churn();
  }
}

// Adopts orphans, and counts them.
static void adopts_orphans(void) {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) skip("PR_SET_CHILD_SUBREAPER");
  say_ready();
  while (!is_over()) {
    const pid_t child = fork();
    if (child == 0) {
      if (fork() == 0) _exit(9);
      _exit(8);
    }
    int seen = 0;
    for (int i = 0; i < 2; ++i) {
      int status = 0;
      EXPECT(waitpid(-1, &status, 0) > 0);
      seen += WEXITSTATUS(status);
    }
    EXPECT_EQUAL(seen, 17);
    EXPECT(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    churn();
  }
}

static void vforks(void) {
  char* const arguments[] = {"true", NULL};
  say_ready();
  while (!is_over()) {
    const pid_t child = vfork();
    if (child == 0) {
      execv("/bin/true", arguments);
      _exit(99);
    }
    int status = -1;
    EXPECT_EQUAL(waitpid(child, &status, 0), child);
    EXPECT_EQUAL(status, 0);
    churn();
  }
}

static void* vfork_on_thread(void* unused) {
  (void)unused;
  char* const arguments[] = {"sh", "-c", "exit 3", NULL};
  while (!is_over()) {
    pid_t child = 0;
    EXPECT_EQUAL(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, program_arguments), 0);
    int status = -1;
    EXPECT_EQUAL(waitpid(child, &status, 0), child);
    EXPECT_EQUAL(WEXITSTATUS(status), 3);
    did();
  }
  return NULL;
}
static void spawns_on_threads(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, vfork_on_thread, NULL);
  say_ready();
  while (!is_over()) churn();
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

// Children of children, each of which allocates; nothing of it is lost.
static void fork_storm(void) {
  say_ready();
  while (!is_over()) {
    int ends[2];
    if (pipe(ends) != 0) wrong(__FILE__, __LINE__, "pipe", errno);
    pid_t children[4];
    for (int i = 0; i < 4; ++i) {
      children[i] = fork();
      if (children[i] != 0) continue;
      const pid_t grandchild = fork_child(0);
      int status = -1;
      EXPECT_EQUAL(waitpid(grandchild, &status, 0), grandchild);
      EXPECT_EQUAL(write(ends[1], "x", 1), 1);
      _exit(status == 0 ? 0 : 1);
    }
    close(ends[1]);
    char bytes[8];
    int received = 0;
    for (ssize_t size = 1; size > 0;) {
      size = read(ends[0], bytes, sizeof bytes);
      EXPECT(size >= 0);
      received += (int)size;
    }
    EXPECT_EQUAL(received, 4);
    close(ends[0]);
    for (int i = 0; i < 4; ++i) {
      int status = -1;
      EXPECT_EQUAL(waitpid(children[i], &status, 0), children[i]);
      EXPECT_EQUAL(status, 0);
    }
  }
}

// Handlers of fork are called for its own forks, and for nobody else's.
static atomic_int prepared;
static atomic_int in_parent;
static void prepare(void) {
  atomic_fetch_add(&prepared, 1);
}
static void parent(void) {
  atomic_fetch_add(&in_parent, 1);
}
static void fork_handlers(void) {
  pthread_atfork(prepare, parent, NULL);
  say_ready();
  for (int forks = 1; !is_over(); ++forks) {
    const pid_t child = fork_child(0);
    EXPECT_EQUAL(waitpid(child, NULL, 0), child);
    EXPECT(atomic_load(&prepared) == forks && atomic_load(&in_parent) == forks);
  }
}

// A child that is to be killed when the thread that made it ends.
static void child_of_a_thread(void) {
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(1);
    while (!is_over()) rest(2);
    _exit(5);
  }
  say_ready();
  while (!is_over()) {
    EXPECT_EQUAL(waitpid(child, NULL, WNOHANG), 0);
    churn();
  }
  int status = 0;
  EXPECT_EQUAL(waitpid(child, &status, 0), child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

// A child that runs in its memory for good, with signals and files of its own.
static atomic_long shared_counter;
static int run_in_memory(void* unused) {
  (void)unused;
  while (!is_over()) atomic_fetch_add(&shared_counter, 1);
  return 6;
}
static void child_in_its_memory(void) {
  enum { kSize = 64 << 10 };
  unsigned char* const stack =
      mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  const pid_t child = clone(run_in_memory, stack + kSize, CLONE_VM | SIGCHLD, NULL);
  if (child < 0) skip("clone");
  say_ready();
  while (!is_over()) {
    const long before = atomic_load(&shared_counter);
    // The child may be the first to see that it is over.
    while (atomic_load(&shared_counter) == before && !is_over()) sched_yield();
    churn();
  }
  int status = 0;
  EXPECT_EQUAL(waitpid(child, &status, 0), child);
  EXPECT_EQUAL(WEXITSTATUS(status), 6);
}

// A debugger: traces a child of its own, and waits for whatever stops.
static void traces_a_child(void) {
  say_ready();
  while (!is_over()) {
    const pid_t child = fork();
    if (child == 0) {
      ptrace(PTRACE_TRACEME, 0, NULL, NULL);
      raise(SIGSTOP);
      _exit(11);
    }
    int status = 0;
    EXPECT_EQUAL(waitpid(-1, &status, 0), child);
    EXPECT(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQUAL(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
      EXPECT_EQUAL(waitpid(-1, &status, 0), child);
      EXPECT(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    }
    EXPECT_EQUAL(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
    EXPECT_EQUAL(waitpid(-1, &status, 0), child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 11);
    churn();
  }
}

// Executes itself, by the first thread or by another one. Says that it is ready only the first
// time.
static void execute_again(const char* kind) {
  char* const arguments[] = {program_arguments[0], (char*)kind, program_arguments[2], "again",
                             NULL};
  execv(program_name, arguments);
  wrong(__FILE__, __LINE__, "execv", errno);
  _exit(6);
}
static void work_between_executions(void) {
  if (program_arguments[3] == NULL) say_ready();
  for (int i = 0; i < 200; ++i) churn();
  if (is_over()) _exit(0);
}
static void executes_itself(void) {
  work_between_executions();
  execute_again("executes_itself");
}
static void* execute_on_thread(void* unused) {
  (void)unused;
  execute_again("executes_on_a_thread");
  return NULL;
}
static void executes_on_a_thread(void) {
  work_between_executions();
  start_thread(execute_on_thread, NULL);
  while (true) churn();
}

// Becomes another program that goes on in a shell, which runs in the background of no terminal.
static void shell_behind(void) {
  say_ready();
  char* const arguments[] = {"sh", "-c", "exit 4", NULL};
  while (!is_over()) {
    const pid_t child = fork();
    if (child == 0) {
      setsid();
      execv("/bin/sh", arguments);
      _exit(99);
    }
    int status = 0;
    EXPECT_EQUAL(waitpid(child, &status, WUNTRACED), child);
    EXPECT_EQUAL(WEXITSTATUS(status), 4);
    churn();
  }
}

const struct Kind child_kinds[] = {{"child_handler", child_handler},
                                   {"no_child_wait", no_child_wait},
                                   {"waits_for_any", waits_for_any},
                                   {"adopts_orphans", adopts_orphans},
                                   {"vforks", vforks},
                                   {"spawns_on_threads", spawns_on_threads},
                                   {"fork_storm", fork_storm},
                                   {"fork_handlers", fork_handlers},
                                   {"child_of_a_thread", child_of_a_thread},
                                   {"child_in_its_memory", child_in_its_memory},
                                   {"traces_a_child", traces_a_child},
                                   {"executes_itself", executes_itself},
                                   {"executes_on_a_thread", executes_on_a_thread},
                                   {"shell_behind", shell_behind},
                                   {NULL, NULL}};
