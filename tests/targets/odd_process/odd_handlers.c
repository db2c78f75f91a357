// Kinds that are in signal handlers much of the time.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "odd_process.h"

static void handle(int number, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  EXPECT_EQUAL(sigaction(number, &action, NULL), 0);
}

enum { kStackSize = 64 << 10 };
static unsigned char* signal_stack;

static void use_signal_stack(void) {
  signal_stack = malloc(kStackSize);
  memset(signal_stack, 0, kStackSize);
  const stack_t stack = {.ss_sp = signal_stack, .ss_size = kStackSize};
  EXPECT_EQUAL(sigaltstack(&stack, NULL), 0);
}

// On a stack of its own, which it fills with a pattern and looks at again.
static void fill_stack(int number, siginfo_t* info, void* context) {
  (void)info;
  (void)context;
  volatile unsigned char bytes[8192];
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = (unsigned char)number;
  const unsigned char* const here = (const unsigned char*)bytes;
  EXPECT(here > signal_stack && here < signal_stack + kStackSize);
  getppid();
  for (size_t i = 0; i < sizeof bytes; ++i) EXPECT_EQUAL(bytes[i], number);
  did();
}
static void handler_stack(void) {
  use_signal_stack();
  handle(SIGUSR1, fill_stack, SA_ONSTACK);
  say_ready();
  while (!is_over()) {
    raise(SIGUSR1);
    churn();
  }
}

// In a handler nearly all the time, and there in blocking calls.
static void stay(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  (void)context;
  for (int i = 0; i < 3 && !is_over(); ++i) {
    rest(3);
    did();
  }
}
static void long_handlers(void) {
  handle(SIGUSR1, stay, 0);
  say_ready();
  while (!is_over()) raise(SIGUSR1);
}

static volatile int depth;
static void nest(int number, siginfo_t* info, void* context) {
  (void)info;
  (void)context;
  EXPECT_EQUAL(number, SIGRTMIN + depth);
  ++depth;
  if (depth < 8) raise(SIGRTMIN + depth);
  --depth;
  EXPECT_EQUAL(number, SIGRTMIN + depth);
}
static void nested_handlers(void) {
  for (int i = 0; i < 8; ++i) handle(SIGRTMIN + i, nest, 0);
  say_ready();
  while (!is_over()) {
    raise(SIGRTMIN);
    EXPECT_EQUAL(depth, 0);
    churn();
  }
}

static sigjmp_buf start;
static volatile sig_atomic_t may_jump;
static void jump(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  (void)context;
  if (may_jump) siglongjmp(start, 1);
}
static void jumps_out_of_handlers(void) {
  handle(SIGALRM, jump, 0);
  const struct itimerval time = {{0, 700}, {0, 700}};
  setitimer(ITIMER_REAL, &time, NULL);
  say_ready();
  while (!is_over()) {
    if (sigsetjmp(start, 1) == 0) {
      may_jump = 1;
      for (volatile long i = 0; i < 100000000 && !is_over(); ++i) getppid();
    }
    may_jump = 0;
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    EXPECT_EQUAL(sigismember(&mask, SIGALRM), 0);
    churn();
  }
}

// A collector's write barrier: the heap is protected, and each first write is a fault.
static unsigned char* barrier;
enum { kBarrierSize = 16 << 12 };
static void unprotect(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)context;
  unsigned char* const page = (unsigned char*)((uintptr_t)info->si_addr & ~(uintptr_t)4095);
  if (page < barrier || page >= barrier + kBarrierSize) {
    wrong(__FILE__, __LINE__, "a fault elsewhere", (long)info->si_addr);
    _exit(4);
  }
  if (mprotect(page, 4096, PROT_READ | PROT_WRITE) != 0) _exit(5);
}
static void write_barrier(void) {
  barrier = aligned_alloc(4096, kBarrierSize);
  memset(barrier, 1, kBarrierSize);
  handle(SIGSEGV, unprotect, 0);
  say_ready();
  while (!is_over()) {
    EXPECT_EQUAL(mprotect(barrier, kBarrierSize, PROT_READ), 0);
    for (size_t at = 0; at < kBarrierSize; at += 4096) {
      const unsigned char before = barrier[at];
      *(volatile unsigned char*)(barrier + at) = (unsigned char)(before + 1);
      EXPECT_EQUAL(barrier[at], (unsigned char)(before + 1));
    }
    churn();
  }
  mprotect(barrier, kBarrierSize, PROT_READ | PROT_WRITE);
}

// Breakpoints of its own.
static volatile long traps;
static void count_trap(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  (void)context;
  traps = traps + 1;
}
static void own_breakpoints(void) {
  handle(SIGTRAP, count_trap, 0);
  say_ready();
  for (long rounds = 1; !is_over(); ++rounds) {
    __asm__ volatile("int3" ::: "memory");
    EXPECT_EQUAL(traps, rounds);
    did();
    if (rounds % 16 == 0) churn();
  }
}

// Steps through its own code by the trap flag.
static void own_steps(void) {
  handle(SIGTRAP, count_trap, 0);
  say_ready();
  while (!is_over()) {
    traps = 0;
    long sum = 0;
    __asm__ volatile(
        "lea -128(%%rsp), %%rsp\n\t"
        "pushfq\n\t"
        "orq $0x100, (%%rsp)\n\t"
        "popfq\n\t"
        ".rept 200\n\t"
        "inc %0\n\t"
        ".endr\n\t"
        "pushfq\n\t"
        "andq $~0x100, (%%rsp)\n\t"
        "popfq\n\t"
        "lea 128(%%rsp), %%rsp"
        : "+r"(sum)
        :
        : "memory", "cc");
    EXPECT_EQUAL(sum, 200);
    EXPECT_EQUAL(traps, 203);
    churn();
  }
}

const struct Kind handler_kinds[] = {{"handler_stack", handler_stack},
                                     {"long_handlers", long_handlers},
                                     {"nested_handlers", nested_handlers},
                                     {"jumps_out_of_handlers", jumps_out_of_handlers},
                                     {"write_barrier", write_barrier},
                                     {"own_breakpoints", own_breakpoints},
                                     {"own_steps", own_steps},
                                     {NULL, NULL}};
