// A program that forbids itself nearly all system calls once it has been told to go on, as
// sandboxed ones do when they have started: what malloc, threads and its own few lines of output
// need is left, anything else ends it by SIGSYS. Then it does all that makes a tracker grow:
// threads by the hundred, deep and varied stacks, memory in many places, a signal stack, a
// coroutine's, a fork.
//
//   later_filter     prints "ready", reads a line, works, prints "done", reads to the end, exits 0
//
// Its first thread is called "warden", a second one, which lives as long as the process, "inmate".
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SYS_rseq
#define SYS_rseq 334
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif

enum { kThreads = 100, kRounds = 3, kDepth = 200, kBlocks = 40 };

static pthread_barrier_t together;
static pthread_barrier_t of_two;  // first and second thread

#define ALLOW(call)                                      \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void forbid_the_rest(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      // malloc
      ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(mprotect), ALLOW(mremap), ALLOW(madvise),
      ALLOW(futex),
      // threads, signals, fork
      ALLOW(clone), ALLOW(clone3), ALLOW(set_robust_list), ALLOW(rseq), ALLOW(rt_sigprocmask),
      ALLOW(rt_sigreturn), ALLOW(wait4), ALLOW(exit), ALLOW(exit_group), ALLOW(restart_syscall),
      // its own lines
      ALLOW(read), ALLOW(write), ALLOW(newfstatat),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    exit(77);
  }
}

static void* volatile kept[kBlocks];

__attribute__((noinline)) static unsigned allocate_at(unsigned depth, unsigned seed) {
  if (depth != 0) {
    const unsigned sum = (depth + seed) % 3 == 0 ? allocate_at(depth - 1, seed * 5 + 1)
                                                 : allocate_at(depth - 1, seed + 7);
    return sum + depth;
  }
  void* blocks[kBlocks];
  for (unsigned i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc((i * 37 + seed) % 3000 + (i % 20 == 0 ? 200000 : 1));
    memset(blocks[i], 1, 1);
  }
  for (unsigned i = 0; i < kBlocks; ++i) blocks[i] = realloc(blocks[i], 50 + i * 100);
  for (unsigned i = 0; i < kBlocks; ++i) free(blocks[i]);
  return seed;
}

static void* work(void* number) {
  // All of them live at once, so none can take over what another one leaves.
  pthread_barrier_wait(&together);
  for (unsigned i = 0; i < 20; ++i) allocate_at(kDepth, (unsigned)(size_t)number * 20 + i);
  pthread_barrier_wait(&together);
  return NULL;
}

static void* stay(void* unused) {
  prctl(PR_SET_NAME, "inmate", 0, 0, 0);
  for (;;) {
    pthread_barrier_wait(&of_two);
    allocate_at(10, 1);
  }
  return unused;
}

// Of the instruction below, two bytes long, which it passes over.
static void on_signal(int number, siginfo_t* info, void* context) {
  (void)info;
  kept[0] = malloc(100 + (size_t)number);
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

static ucontext_t here, there;
static void in_coroutine(void) {
  allocate_at(50, 3);
  swapcontext(&there, &here);
}

int main(void) {
  prctl(PR_SET_NAME, "warden", 0, 0, 0);
  mallopt(M_ARENA_MAX, 1);  // for others it opens files of the kernel
  setvbuf(stdout, NULL, _IOLBF, 4096);
  pthread_barrier_init(&together, NULL, kThreads);
  pthread_barrier_init(&of_two, NULL, 2);
  pthread_t inmate;
  pthread_create(&inmate, NULL, stay, NULL);
  pthread_barrier_wait(&of_two);

  static char signal_stack[1 << 16];
  const stack_t alternate = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
  sigaltstack(&alternate, NULL);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_ONSTACK | SA_SIGINFO;
  sigaction(SIGILL, &action, NULL);

  printf("ready\n");
  if (getchar() == EOF) return 1;
  forbid_the_rest();

  pthread_attr_t small;
  pthread_attr_init(&small);
  // So large that glibc keeps none for the next round: each thread has its block in a new place.
  pthread_attr_setstacksize(&small, 48 << 20);
  for (unsigned round = 0; round < kRounds; ++round) {
    pthread_t threads[kThreads];
    for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], &small, work, (void*)i);
    for (size_t i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  }
  for (size_t i = 0; i < kBlocks; ++i) {
    kept[i] = malloc(8 << 20);
    memset(kept[i], 1, 1 << 10);
  }
  __asm__ volatile("ud2" ::: "memory");
  static char coroutine_stack[1 << 17];
  getcontext(&there);
  there.uc_stack.ss_sp = coroutine_stack;
  there.uc_stack.ss_size = sizeof coroutine_stack;
  there.uc_link = NULL;
  makecontext(&there, in_coroutine, 0);
  swapcontext(&here, &there);

  const pid_t child = fork();
  if (child == 0) {
    allocate_at(kDepth, 4);
    _exit(7);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) {
    printf("child %d\n", status);
    return 1;
  }
  for (int i = 0; i < 2; ++i) pthread_barrier_wait(&of_two);  // it has worked in between
  printf("done\n");
  getchar();
  return 0;
}
