// Kinds that may do less than others, or see less.
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "odd_process.h"

static int filter(unsigned flags, struct sock_filter* code, size_t size) {
  const struct sock_fprog program = {(unsigned short)size, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const int result = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (result < 0) skip("seccomp");
  return result;
}
#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ALLOW(call)                                      \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define OTHERWISE(what) BPF_STMT(BPF_RET | BPF_K, what)

// Waits in calls that the kernel makes again when they are interrupted, by a stop too: some as
// they are, some as restart_syscall(2).
static void wait_and_work(void) {
  static atomic_int never;
  say_ready();
  while (!is_over()) {
    rest(3);
    const struct timespec time = {0, 3000000};
    EXPECT_EQUAL(nanosleep(&time, NULL), 0);
    EXPECT(syscall(SYS_futex, &never, 128, 0, &time, NULL, 0) == -1 && errno == ETIMEDOUT);
    churn();
  }
}
#define ALLOW_WORK                                                                               \
  ALLOW(write), ALLOW(poll), ALLOW(nanosleep), ALLOW(clock_nanosleep), ALLOW(futex), ALLOW(brk), \
      ALLOW(mmap), ALLOW(munmap), ALLOW(mprotect), ALLOW(madvise), ALLOW(getpid),                \
      ALLOW(exit_group), ALLOW(getrandom)

static void killed_by_other_calls(void) {
  struct sock_filter code[] = {LOAD_NUMBER, ALLOW_WORK, ALLOW(restart_syscall),
                               OTHERWISE(SECCOMP_RET_KILL_PROCESS)};
  filter(0, code, sizeof code / sizeof *code);
  wait_and_work();
}
// The same list without restart_syscall(2), which no program makes.
static void killed_by_a_restart(void) {
  struct sock_filter code[] = {LOAD_NUMBER, ALLOW_WORK, OTHERWISE(SECCOMP_RET_KILL_PROCESS)};
  filter(0, code, sizeof code / sizeof *code);
  wait_and_work();
}
static void refused_a_restart(void) {
  struct sock_filter code[] = {LOAD_NUMBER, ALLOW_WORK, OTHERWISE(SECCOMP_RET_ERRNO | EPERM)};
  filter(0, code, sizeof code / sizeof *code);
  wait_and_work();
}

static volatile long trapped;
static void count_call(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)context;
  if (info->si_syscall != SYS_getppid) wrong(__FILE__, __LINE__, "a call", info->si_syscall);
  trapped = trapped + 1;
}
static void traps_other_calls(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = count_call;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, NULL);
  struct sock_filter code[] = {LOAD_NUMBER, ALLOW_WORK, ALLOW(rt_sigreturn), ALLOW(restart_syscall),
                               OTHERWISE(SECCOMP_RET_TRAP)};
  filter(0, code, sizeof code / sizeof *code);
  say_ready();
  for (long rounds = 1; !is_over(); ++rounds) {
    rest(2);
    syscall(SYS_getppid);
    EXPECT_EQUAL(trapped, rounds);
    churn();
  }
}

// A thread of its own answers for the kernel, until the last call has been made.
static int listener;
static atomic_int all_answered;
static void* answer_calls(void* unused) {
  (void)unused;
  while (!all_answered) {
    struct pollfd ready = {listener, POLLIN, 0};
    if (poll(&ready, 1, 50) != 1) continue;
    struct seccomp_notif call;
    memset(&call, 0, sizeof call);
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) continue;
    struct seccomp_notif_resp answer = {.id = call.id, .val = 4711};
    if (call.data.nr != SYS_getppid) wrong(__FILE__, __LINE__, "a call", call.data.nr);
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
  return NULL;
}
static void answers_its_calls(void) {
  pthread_t thread;
  struct sock_filter code[] = {LOAD_NUMBER, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
                               OTHERWISE(SECCOMP_RET_USER_NOTIF), OTHERWISE(SECCOMP_RET_ALLOW)};
  listener = filter(SECCOMP_FILTER_FLAG_NEW_LISTENER, code, sizeof code / sizeof *code);
  pthread_create(&thread, NULL, answer_calls, NULL);
  say_ready();
  while (!is_over()) {
    EXPECT_EQUAL(syscall(SYS_getppid), 4711);
    churn();
  }
  all_answered = 1;
  pthread_join(thread, NULL);
}

// Only read, write and an exit of the thread: it spins, and ends by the bare call.
static void four_calls(void) {
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) != 0) {
    skip("SECCOMP_MODE_STRICT");
  }
  static const char kReady[] = "ready 0\n";
  if (write(1, kReady, sizeof kReady - 1) < 0) wrong(__FILE__, __LINE__, "write", errno);
  while (!is_over()) did();
  syscall(SYS_exit, 0);
}

static void become(unsigned id) {
  if (getuid() == 0 &&
      (setgroups(0, NULL) != 0 || setresgid(id, id, id) != 0 || setresuid(id, id, id) != 0)) {
    skip("setresuid");
  }
}
static void work_and_fork(void) {
  say_ready();
  while (!is_over()) {
    const pid_t child = fork();
    if (child == 0) _exit(3);
    int status = 0;
    EXPECT_EQUAL(waitpid(child, &status, 0), child);
    EXPECT_EQUAL(WEXITSTATUS(status), 3);
    churn();
  }
}
static void another_user(void) {
  become(65534);
  work_and_fork();
}
static void not_dumpable(void) {
  prctl(PR_SET_DUMPABLE, 0);
  say_ready();
  while (!is_over()) {
    EXPECT_EQUAL(prctl(PR_GET_DUMPABLE), 0);
    churn();
  }
}
static void user_namespace(void) {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) != 0) skip("unshare");
  work_and_fork();
}
// Its children are in another pid namespace, itself is not.
static void children_in_a_namespace(void) {
  if (unshare(CLONE_NEWPID) != 0) skip("CLONE_NEWPID");
  const pid_t first = fork();
  if (first == 0) {
    while (!is_over()) rest(20);
    _exit(0);
  }
  say_ready();
  while (!is_over()) {
    const pid_t child = fork();
    if (child == 0) _exit(getpid() == 1 ? 1 : 3);
    int status = 0;
    EXPECT_EQUAL(waitpid(child, &status, 0), child);
    EXPECT_EQUAL(WEXITSTATUS(status), 3);
    churn();
  }
  EXPECT_EQUAL(waitpid(first, NULL, 0), first);
}
static void empty_root(void) {
  char path[] = "/tmp/heapsnap-odd-XXXXXX";
  if (mkdtemp(path) == NULL || chroot(path) != 0 || chdir("/") != 0) skip("chroot");
  work_and_fork();
}
static void no_files_at_all(void) {
  const struct landlock_ruleset_attr attributes = {.handled_access_fs = 0x1fff};
  const int rules = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (rules < 0 || syscall(SYS_landlock_restrict_self, rules, 0) != 0) skip("landlock");
  close(rules);
  work_and_fork();
}

// Its name looks like fields of /proc/PID/stat.
static void odd_name(void) {
  prctl(PR_SET_NAME, "a) Z 1 1\n(b) R");
  work_and_fork();
}

const struct Kind rights_kinds[] = {{"killed_by_other_calls", killed_by_other_calls},
                                    {"killed_by_a_restart", killed_by_a_restart},
                                    {"refused_a_restart", refused_a_restart},
                                    {"traps_other_calls", traps_other_calls},
                                    {"answers_its_calls", answers_its_calls},
                                    {"four_calls", four_calls},
                                    {"another_user", another_user},
                                    {"not_dumpable", not_dumpable},
                                    {"user_namespace", user_namespace},
                                    {"children_in_a_namespace", children_in_a_namespace},
                                    {"empty_root", empty_root},
                                    {"no_files_at_all", no_files_at_all},
                                    {"odd_name", odd_name},
                                    {NULL, NULL}};
