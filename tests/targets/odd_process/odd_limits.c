// Kinds near a limit of theirs that kills, or fails.
#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "odd_process.h"

static void limit(int resource, rlim_t soft) {
  struct rlimit both;
  getrlimit(resource, &both);
  both.rlim_cur = soft;
  if (setrlimit(resource, &both) != 0) skip("setrlimit");
}

static atomic_int signals;
static void count_signal(int number) {
  (void)number;
  atomic_fetch_add(&signals, 1);
}

// Files may not grow at all; whoever tries is sent SIGXFSZ, which kills.
static void no_file_growth(void) {
  limit(RLIMIT_FSIZE, 0);
  say_ready();
  while (!is_over()) churn();
}

// Real-time threads that do not sleep for this long are sent SIGXCPU, which kills.
static void real_time_limit(void) {
  limit(RLIMIT_RTTIME, 8000);
  say_ready();
  while (!is_over()) churn();
}

static void no_queued_signals(void) {
  limit(RLIMIT_SIGPENDING, 0);
  say_ready();
  while (!is_over()) {
    EXPECT(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 1}) == -1 && errno == EAGAIN);
    churn();
  }
}

// All of its memory is locked, and it may lock just what it needs at most.
static void locked_memory_limit(void) {
  enum { kStep = 64 << 10 };
  struct rlimit most;
  getrlimit(RLIMIT_MEMLOCK, &most);
  if (most.rlim_max > 48 << 20) most.rlim_max = 48 << 20;
  limit(RLIMIT_MEMLOCK, most.rlim_max);
  if (getuid() == 0 && (setgroups(0, NULL) != 0 || setresgid(65534, 65534, 65534) != 0 ||
                        setresuid(65534, 65534, 65534) != 0)) {
    skip("setresuid");
  }
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) skip("mlockall");
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  churn();
  size_t size = most.rlim_max;
  void* memory = MAP_FAILED;
  while (memory == MAP_FAILED && size > kStep) {
    size -= kStep;
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) skip("mmap");
  munmap(memory, size);
  churn();
  size -= 4 * kStep;
  memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  say_ready();
  while (!is_over()) {
    churn();
    munmap(memory, size);
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED);
  }
}

// Told of each second of its own time, by a signal of which there are few.
static void processor_time_limit(void) {
  signal(SIGXCPU, count_signal);
  limit(RLIMIT_CPU, 1);
  say_ready();
  while (!is_over()) churn();
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  EXPECT(atomic_load(&signals) <= usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + 1);
}

static void small_stack_limit(void) {
  limit(RLIMIT_STACK, 128 << 10);
  say_ready();
  while (!is_over()) churn();
}

const struct Kind limit_kinds[] = {{"no_file_growth", no_file_growth},
                                   {"real_time_limit", real_time_limit},
                                   {"no_queued_signals", no_queued_signals},
                                   {"locked_memory_limit", locked_memory_limit},
                                   {"processor_time_limit", processor_time_limit},
                                   {"small_stack_limit", small_stack_limit},
                                   {NULL, NULL}};
