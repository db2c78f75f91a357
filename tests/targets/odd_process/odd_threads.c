// Kinds with many threads, short ones, and ones that share less than others do.
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "odd_process.h"

static _Thread_local long own_value;
static void* work_a_little(void* value) {
  EXPECT_EQUAL(own_value, 0);
  own_value = (long)value;
  churn();
  EXPECT_EQUAL(own_value, (long)value);
  return value;
}
static void* keep_threads_coming(void* unused) {
  (void)unused;
  for (long i = 1; !is_over(); ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work_a_little, (void*)i) != 0) {
      wrong(__FILE__, __LINE__, "pthread_create", i);
      continue;
    }
    void* result = NULL;
    EXPECT_EQUAL(pthread_join(thread, &result), 0);
    EXPECT_EQUAL((long)result, i);
  }
  return NULL;
}
static void short_threads(void) {
  start_thread(keep_threads_coming, NULL);
  start_thread(keep_threads_coming, NULL);
  say_ready();
  keep_threads_coming(NULL);
}

static void* work_until_over(void* unused) {
  (void)unused;
  while (!is_over()) churn();
  return NULL;
}
// Its descriptors are gone then, too.
static int is_first_thread_gone(void) {
  char path[64];
  char text[256] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  const char* const name_end = length > 0 ? strrchr(text, ')') : NULL;
  return name_end != NULL && name_end[1] == ' ' && name_end[2] == 'Z';
}
static void* work_without_first(void* unused) {
  (void)unused;
  while (!is_first_thread_gone()) sched_yield();
  say_ready();
  while (!is_over()) churn();
  exit(0);
}
static void first_thread_gone(void) {
  start_thread(work_without_first, NULL);
  start_thread(work_until_over, NULL);
  pthread_exit(NULL);
}

static atomic_int never;
static void* sleep_until_over(void* unused) {
  (void)unused;
  const struct timespec time = {0, 200000000};
  while (!is_over()) {
    const long result = syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0);
    EXPECT(result == -1 && errno == ETIMEDOUT);
  }
  return NULL;
}
static void many_threads(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  enum { kThreads = 500 };
  static pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    if (pthread_create(&threads[i], &attributes, sleep_until_over, NULL) != 0) skip("500 threads");
  }
  say_ready();
  while (!is_over()) churn();
  for (int i = 0; i < kThreads; ++i) EXPECT_EQUAL(pthread_join(threads[i], NULL), 0);
}

// A file table of its own: descriptor 100 is another file in each thread.
static void* with_own_files(void* unused) {
  (void)unused;
  if (unshare(CLONE_FILES) != 0) {
    wrong(__FILE__, __LINE__, "unshare", errno);
    return NULL;
  }
  const int own = eventfd(0, 0);
  dup2(own, 100);
  close(own);
  for (uint64_t i = 1; !is_over(); ++i) {
    EXPECT_EQUAL(write(100, &i, sizeof i), sizeof i);
    uint64_t value = 0;
    EXPECT_EQUAL(read(100, &value, sizeof value), sizeof value);
    EXPECT_EQUAL(value, i);
    churn();
  }
  return NULL;
}
static void own_file_tables(void) {
  for (int i = 0; i < 3; ++i) start_thread(with_own_files, NULL);
  say_ready();
  while (!is_over()) {
    EXPECT_EQUAL(fcntl(100, F_GETFD), -1);
    churn();
  }
}

static void* be_cancelled(void* unused) {
  (void)unused;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  for (volatile long i = 0;; ++i) {
  }
  return NULL;
}
static void cancelled_threads(void) {
  say_ready();
  while (!is_over()) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, be_cancelled, NULL) != 0) {
      wrong(__FILE__, __LINE__, "pthread_create", errno);
      continue;
    }
    EXPECT_EQUAL(pthread_cancel(thread), 0);
    void* result = NULL;
    EXPECT_EQUAL(pthread_join(thread, &result), 0);
    EXPECT(result == PTHREAD_CANCELED);
    churn();
  }
}

// All threads answer whenever one of them becomes another user.
static void changing_users(void) {
  if (getuid() != 0) skip("not root");
  for (int i = 0; i < 4; ++i) start_thread(work_until_over, NULL);
  say_ready();
  while (!is_over()) {
    EXPECT_EQUAL(setegid(65534), 0);
    EXPECT_EQUAL(seteuid(65534), 0);
    EXPECT_EQUAL(geteuid(), 65534);
    churn();
    EXPECT_EQUAL(seteuid(0), 0);
    EXPECT_EQUAL(setegid(0), 0);
    churn();
  }
}

static void* run_small(void* unused) {
  (void)unused;
  while (!is_over()) churn();
  return NULL;
}
static void small_stacks(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) {
    if (pthread_create(&threads[i], &attributes, run_small, NULL) != 0) skip("small stacks");
  }
  say_ready();
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
}

static void huge_stack(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)4 << 30);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, run_small, NULL) != 0) skip("a stack of 4 GiB");
  say_ready();
  pthread_join(thread, NULL);
}

static void schedule(int policy, int priority) {
  const struct sched_param parameters = {.sched_priority = priority};
  if (sched_setscheduler(0, policy, &parameters) != 0) skip("sched_setscheduler");
  say_ready();
  while (!is_over()) {
    churn();
    rest(1);
    struct sched_param now;
    EXPECT_EQUAL(sched_getscheduler(0), policy);
    EXPECT(sched_getparam(0, &now) == 0 && now.sched_priority == priority);
  }
}
static void real_time(void) {
  schedule(SCHED_FIFO, 99);
}
static void idle_priority(void) {
  schedule(SCHED_IDLE, 0);
}

struct DeadlineAttributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};
static void deadline_scheduling(void) {
  struct DeadlineAttributes attributes = {sizeof attributes, SCHED_DEADLINE, 0,       0, 0,
                                          2000000,           10000000,       10000000};
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) skip("SCHED_DEADLINE");
  say_ready();
  while (!is_over()) {
    churn();
    sched_yield();
    EXPECT_EQUAL(sched_getscheduler(0), SCHED_DEADLINE);
  }
}

static void one_processor(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) skip("sched_setaffinity");
  start_thread(work_until_over, NULL);
  start_thread(work_until_over, NULL);
  say_ready();
  while (!is_over()) {
    churn();
    EXPECT_EQUAL(sched_getcpu(), 0);
  }
}

const struct Kind thread_kinds[] = {{"short_threads", short_threads},
                                    {"first_thread_gone", first_thread_gone},
                                    {"many_threads", many_threads},
                                    {"own_file_tables", own_file_tables},
                                    {"cancelled_threads", cancelled_threads},
                                    {"changing_users", changing_users},
                                    {"small_stacks", small_stacks},
                                    {"huge_stack", huge_stack},
                                    {"real_time", real_time},
                                    {"idle_priority", idle_priority},
                                    {"deadline_scheduling", deadline_scheduling},
                                    {"one_processor", one_processor},
                                    {NULL, NULL}};
