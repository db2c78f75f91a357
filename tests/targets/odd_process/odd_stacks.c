// Kinds whose stack pointer is where one would not expect it. More of them: odd_stack.cpp.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "odd_process.h"

enum { kCoroutines = 64, kCoroutineStack = 32 << 10 };
static ucontext_t scheduler;
static ucontext_t coroutines[kCoroutines];

static void run_coroutine(int number) {
  unsigned char bytes[1024];
  memset(bytes, number, sizeof bytes);
  __asm__ volatile("" ::"r"(bytes) : "memory");
  while (true) {
    churn();
    for (size_t i = 0; i < sizeof bytes; ++i) EXPECT_EQUAL(bytes[i], number);
    swapcontext(&coroutines[number], &scheduler);
  }
}
static void prepare_coroutines(void) {
  for (int i = 0; i < kCoroutines; ++i) {
    unsigned char* const stack =
        mmap(NULL, kCoroutineStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) skip("mmap");
    mprotect(stack, 4096, PROT_NONE);
    getcontext(&coroutines[i]);
    coroutines[i].uc_stack.ss_sp = stack;
    coroutines[i].uc_stack.ss_size = kCoroutineStack;
    coroutines[i].uc_link = NULL;
    makecontext(&coroutines[i], (void (*)(void))run_coroutine, 1, i);
  }
}
static void many_coroutines(void) {
  prepare_coroutines();
  say_ready();
  for (int i = 0; !is_over(); i = (i + 1) % kCoroutines) swapcontext(&scheduler, &coroutines[i]);
}

// A stack of 8 KiB in the middle of words that are somebody else's, one byte from its end.
static unsigned char* neighbours;
static ucontext_t on_small_stack;
static ucontext_t off_small_stack;
static void stay_on_small_stack(void) {
  while (true) {
    rest(2);
    did();
    swapcontext(&on_small_stack, &off_small_stack);
  }
}
static void stack_beside_data(void) {
  enum { kSize = 256 << 10, kBegin = 100 << 10, kStack = 4 << 10 };
  neighbours = mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(neighbours, 0x5a, kSize);
  getcontext(&on_small_stack);
  on_small_stack.uc_stack.ss_sp = neighbours + kBegin;
  on_small_stack.uc_stack.ss_size = kStack;
  makecontext(&on_small_stack, stay_on_small_stack, 0);
  say_ready();
  while (!is_over()) {
    swapcontext(&off_small_stack, &on_small_stack);
    for (size_t i = 0; i < kBegin; ++i) EXPECT_EQUAL(neighbours[i], 0x5a);
    for (size_t i = kBegin + kStack; i < kSize; ++i) EXPECT_EQUAL(neighbours[i], 0x5a);
  }
}

// The stack pointer is one register more, for a loop without calls and signals.
static void borrowed_stack_pointer(void) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  say_ready();
  while (!is_over()) {
    register uint64_t count __asm__("r12") = 3000000;
    register uint64_t kept __asm__("r13");
    register uint64_t sum __asm__("r14");
    __asm__ volatile(
        "mov %%rsp, %1\n\t"
        "movabs $0x1234567887654321, %%rsp\n\t"
        "1: add $1, %%rsp\n\t"
        "dec %0\n\t"
        "jnz 1b\n\t"
        "mov %%rsp, %2\n\t"
        "mov %1, %%rsp"
        : "+r"(count), "=&r"(kept), "=&r"(sum)
        :
        : "memory", "cc");
    EXPECT_EQUAL(sum, 0x1234567887654321 + 3000000);
    churn();
  }
}

// Up and down on the main stack, by a megabyte.
static long descend(int depth) {
  volatile unsigned char bytes[4096];
  bytes[0] = (unsigned char)depth;
  bytes[4095] = (unsigned char)(depth + 1);
  const long below = depth == 0 ? 0 : descend(depth - 1);
  EXPECT(bytes[0] == (unsigned char)depth && bytes[4095] == (unsigned char)(depth + 1));
  return below + 1;
}
static void deep_recursion(void) {
  say_ready();
  while (!is_over()) {
    EXPECT_EQUAL(descend(250), 251);
    churn();
  }
}

const struct Kind stack_kinds[] = {{"many_coroutines", many_coroutines},
                                   {"stack_beside_data", stack_beside_data},
                                   {"borrowed_stack_pointer", borrowed_stack_pointer},
                                   {"deep_recursion", deep_recursion},
                                   {NULL, NULL}};
