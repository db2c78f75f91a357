// Kinds that use the processor in ways that compilers do not: flags, modes, segments, traps.
#include <asm/prctl.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "odd_process.h"

static long raw_call(long number, long first, long second, long third) {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(first), "S"(second), "d"(third)
                   : "rcx", "r11", "memory");
  return result;
}

// With a flag set that calls of C would not survive, it waits in the kernel and in a loop.
static void with_flag(uint64_t flag) {
  static const struct timespec kTime = {0, 2000000};
  say_ready();
  while (!is_over()) {
    uint64_t flags = 0;
    long result = SYS_nanosleep;
    register uint64_t count __asm__("rbx") = 1000000;
    __asm__ volatile(
        "lea -128(%%rsp), %%rsp\n\t"
        "pushfq\n\t"
        "or %[flag], (%%rsp)\n\t"
        "popfq\n\t"
        "syscall\n\t"
        "1: dec %[count]\n\t"
        "jnz 1b\n\t"
        "pushfq\n\t"
        "pop %[flags]\n\t"
        "pushfq\n\t"
        "not %[flag]\n\t"
        "and %[flag], (%%rsp)\n\t"
        "not %[flag]\n\t"
        "popfq\n\t"
        "lea 128(%%rsp), %%rsp"
        : "+a"(result), [flags] "=&r"(flags), [count] "+r"(count)
        : "D"(&kTime), "S"(NULL), [flag] "r"(flag)
        : "rcx", "r11", "memory", "cc");
    EXPECT_EQUAL(result, 0);
    EXPECT((flags & flag) == flag);
    churn();
  }
}
static void alignment_check(void) {
  with_flag(0x40000);
}
static void direction_flag(void) {
  with_flag(0x400);
}

static unsigned char* low_page(void) {
  unsigned char* const page = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (page == MAP_FAILED) skip("MAP_32BIT");
  return page;
}

// Executes 32-bit code much of the time, with system calls of that mode, as Wine does.
static void code_of_32_bits(void) {
  static const unsigned char kThere[] = {0x48, 0x89, 0xe0,              // mov rax, rsp
                                         0x48, 0x89, 0xfc,              // mov rsp, rdi
                                         0x50, 0x53,                    // push rax; push rbx
                                         0xff, 0x1c, 0x25, 0, 0, 0, 0,  // lcall far [the pointer]
                                         0x5b, 0x5c, 0xc3};             // pop rbx; pop rsp; ret
  static const unsigned char kIn32[] = {0x4e, 0x75, 0xfd,               // 1: dec esi; jnz 1b
                                        0xb8, 0x14, 0x00, 0x00, 0x00,   // mov eax, 20 (getpid)
                                        0xcd, 0x80,                     // int 0x80
                                        0xcb};                          // lret
  enum { kCode32 = 64, kPointer = 128, kUserCode32 = 0x23 };
  unsigned char* const page = low_page();
  memcpy(page, kThere, sizeof kThere);
  memcpy(page + kCode32, kIn32, sizeof kIn32);
  const uint32_t pointer = (uint32_t)(uintptr_t)(page + kPointer);
  const uint32_t code = (uint32_t)(uintptr_t)(page + kCode32);
  const uint16_t segment = kUserCode32;
  memcpy(page + 11, &pointer, sizeof pointer);
  memcpy(page + kPointer, &code, sizeof code);
  memcpy(page + kPointer + 4, &segment, sizeof segment);
  long (*const go)(void*, long) = (long (*)(void*, long))(uintptr_t)page;
  say_ready();
  while (!is_over()) {
    EXPECT_EQUAL(go(page + 8192, 2000000), getpid());
    // As long in the allocator: whoever waits until it has left that finds it in the other mode.
    for (int i = 0; i < 20000; ++i) free(malloc(100));
    churn();
  }
}

// Makes system calls of 32-bit programs; stops must not end them early, nor as other calls.
static void calls_of_32_bits(void) {
  enum { kNanosleep = 162, kPoll = 168 };
  unsigned char* const page = low_page();
  const int32_t time[2] = {0, 3000000};
  memcpy(page, time, sizeof time);
  say_ready();
  while (!is_over()) {
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    long result = kNanosleep;
    __asm__ volatile("int $0x80"
                     : "+a"(result)
                     : "b"(page), "c"(NULL)
                     : "memory", "r8", "r9", "r10", "r11");
    EXPECT_EQUAL((int)result, 0);
    result = kPoll;
    __asm__ volatile("int $0x80"
                     : "+a"(result)
                     : "b"(NULL), "c"(0L), "d"(3L)
                     : "memory", "r8", "r9", "r10", "r11");
    EXPECT_EQUAL((int)result, 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    const long long nanoseconds =
        (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec;
    EXPECT(nanoseconds >= 6000000);
    did();
  }
}

// Whoever reads the time stamp counter, as clock_gettime() does, faults.
static void no_time_stamps(void) {
  if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0) skip("PR_SET_TSC");
  say_ready();
  while (!is_over()) churn();
}

static void* allocate_with_traps(void* unused) {
  (void)unused;
  feenableexcept(FE_ALL_EXCEPT);
  volatile double exact = 1.5;
  while (!is_over()) {
    exact = exact * 2 / 2;
    EXPECT(exact == 1.5);
    churn();
  }
  return NULL;
}
// Every floating point operation that is not exact is a signal.
static void floating_point_traps(void) {
  feenableexcept(FE_ALL_EXCEPT);
  start_thread(allocate_with_traps, NULL);
  say_ready();
  allocate_with_traps(NULL);
}

static void floating_point_modes(void) {
  fesetround(FE_UPWARD);
  const uint32_t flush = 0x8040;  // flush to zero, denormals are zero
  uint32_t control = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(control));
  control |= flush;
  __asm__ volatile("ldmxcsr %0" ::"m"(control));
  say_ready();
  while (!is_over()) {
    uint32_t now = 0;
    __asm__ volatile("stmxcsr %0" : "=m"(now));
    EXPECT((now & flush) == flush);
    EXPECT_EQUAL(fegetround(), FE_UPWARD);
    volatile double third = 1.0;
    third = third / 3.0;
    EXPECT(third > 0.333333333333333314);
    churn();
  }
}

// The thread pointer is the program's for a while, as in programs with a runtime of their own.
static _Thread_local long seen_by_thread = 4711;
static void foreign_thread_pointer(void) {
  static uint64_t own[1024];
  static const struct timespec kTime = {0, 3000000};
  unsigned long libc_base = 0;
  if (syscall(SYS_arch_prctl, ARCH_GET_FS, &libc_base) != 0) skip("ARCH_GET_FS");
  say_ready();
  while (!is_over()) {
    const long first = raw_call(SYS_arch_prctl, ARCH_SET_FS, (long)(own + 512), 0);
    const long slept = raw_call(SYS_nanosleep, (long)&kTime, 0, 0);
    for (volatile long i = 0; i < 1000000; ++i) {
    }
    unsigned long now = 0;
    const long second = raw_call(SYS_arch_prctl, ARCH_GET_FS, (long)&now, 0);
    const long third = raw_call(SYS_arch_prctl, ARCH_SET_FS, (long)libc_base, 0);
    EXPECT(first == 0 && slept == 0 && second == 0 && third == 0);
    EXPECT(now == (unsigned long)(own + 512));
    for (size_t i = 0; i < 1024; ++i) EXPECT_EQUAL(own[i], 0);
    EXPECT_EQUAL(seen_by_thread, 4711);
    churn();
  }
}

static void other_segment_base(void) {
  static uint64_t own[8] = {0x1122334455667788};
  if (syscall(SYS_arch_prctl, ARCH_SET_GS, own) != 0) skip("ARCH_SET_GS");
  say_ready();
  while (!is_over()) {
    uint64_t value = 0;
    __asm__ volatile("mov %%gs:0, %0" : "=r"(value));
    EXPECT(value == 0x1122334455667788);
    rest(1);
    churn();
  }
}

// System calls of its own code are handed to a handler; those of others would be, too.
static volatile char selector;
static volatile long dispatched;
static void dispatch(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  (void)context;
  selector = 0;
  dispatched = dispatched + 1;
}
enum { kBlock = 1 };  // the calls, as the selector says it
static void set_dispatch(void) {
  enum { kSetDispatch = 59 };
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = dispatch;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, NULL);
  if (prctl(kSetDispatch, 1, 0, 0, &selector) != 0) skip("PR_SET_SYSCALL_USER_DISPATCH");
}
static void dispatched_calls(void) {
  set_dispatch();
  say_ready();
  for (long rounds = 1; !is_over(); ++rounds) {
    selector = kBlock;
    for (volatile long i = 0; i < 1000000; ++i) {
    }
    EXPECT_EQUAL(dispatched, rounds - 1);
    raw_call(SYS_getppid, 0, 0, 0);
    EXPECT_EQUAL(dispatched, rounds);
    EXPECT_EQUAL(selector, 0);
    churn();
  }
}

static void allocate_small_blocks(void) {
  for (size_t size = 100; size < 1000; ++size) free(malloc(size));
}
// The same for one thread among others. It allocates meanwhile, from its tcache alone: waiting for
// the lock of an arena, which another thread may have, is a call.
static void* allocate_while_dispatched(void* unused) {
  (void)unused;
  churn();
  set_dispatch();
  say_ready();
  while (!is_over()) {
    allocate_small_blocks();
    selector = kBlock;
    allocate_small_blocks();
    selector = 0;
    EXPECT_EQUAL(dispatched, 0);
    churn();
  }
  return NULL;
}
static void dispatched_thread(void) {
  start_thread(allocate_while_dispatched, NULL);
  while (!is_over()) rest(1);
}

// Memory that is closed by a key of the thread's rights register but while it is used.
static void protection_keys(void) {
  const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  if (key < 0) skip("pkey_alloc");
  enum { kSize = 64 << 10 };
  unsigned char* const memory =
      mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pkey_mprotect(memory, kSize, PROT_READ | PROT_WRITE, key);
  say_ready();
  for (unsigned char round = 1; !is_over(); ++round) {
    pkey_set(key, 0);
    memset(memory, round, kSize);
    pkey_set(key, PKEY_DISABLE_ACCESS);
    churn();
    EXPECT_EQUAL(pkey_get(key), PKEY_DISABLE_ACCESS);
    pkey_set(key, 0);
    for (size_t i = 0; i < kSize; ++i) EXPECT_EQUAL(memory[i], round);
    pkey_set(key, PKEY_DISABLE_ACCESS);
  }
}

const struct Kind processor_kinds[] = {{"alignment_check", alignment_check},
                                       {"direction_flag", direction_flag},
                                       {"code_of_32_bits", code_of_32_bits},
                                       {"calls_of_32_bits", calls_of_32_bits},
                                       {"no_time_stamps", no_time_stamps},
                                       {"floating_point_traps", floating_point_traps},
                                       {"floating_point_modes", floating_point_modes},
                                       {"foreign_thread_pointer", foreign_thread_pointer},
                                       {"other_segment_base", other_segment_base},
                                       {"dispatched_calls", dispatched_calls},
                                       {"dispatched_thread", dispatched_thread},
                                       {"protection_keys", protection_keys},
                                       {NULL, NULL}};
