// Kinds that wait for each other.
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "odd_process.h"

static pthread_mutex_t mutex;
static long guarded;

static void* die_with_lock(void* unused) {
  (void)unused;
  const int result = pthread_mutex_lock(&mutex);
  if (result == EOWNERDEAD) {
    pthread_mutex_consistent(&mutex);
  } else {
    EXPECT_EQUAL(result, 0);
  }
  ++guarded;
  return NULL;
}
// Whoever dies with the mutex is told of: once for each.
static void robust_mutex(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &attributes);
  say_ready();
  for (long deaths = 1; !is_over(); ++deaths) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, die_with_lock, NULL) != 0) {
      wrong(__FILE__, __LINE__, "pthread_create", errno);
      continue;
    }
    pthread_join(thread, NULL);
    EXPECT_EQUAL(guarded, deaths);
    EXPECT_EQUAL(pthread_mutex_lock(&mutex), EOWNERDEAD);
    EXPECT_EQUAL(pthread_mutex_consistent(&mutex), 0);
    EXPECT_EQUAL(pthread_mutex_unlock(&mutex), 0);
    churn();
  }
}

static atomic_int inside;
static void* take_turns(void* unused) {
  (void)unused;
  while (!is_over()) {
    EXPECT_EQUAL(pthread_mutex_lock(&mutex), 0);
    EXPECT_EQUAL(atomic_fetch_add(&inside, 1), 0);
    churn();
    atomic_fetch_sub(&inside, 1);
    EXPECT_EQUAL(pthread_mutex_unlock(&mutex), 0);
  }
  return NULL;
}
static void priority_inheritance(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(&mutex, &attributes);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, take_turns, NULL);
  say_ready();
  take_turns(NULL);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

// Futexes with time limits of all kinds: each ends by its limit, and not before.
static atomic_int never;
static long elapsed_us(const struct timespec* since) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - since->tv_sec) * 1000000 + (now.tv_nsec - since->tv_nsec) / 1000;
}
static void timed_waits(void) {
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  say_ready();
  while (!is_over()) {
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const struct timespec relative = {0, 5000000};
    long result = syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &relative, NULL, 0);
    EXPECT(result == -1 && errno == ETIMEDOUT);
    EXPECT(elapsed_us(&begin) >= 5000);
    struct timespec absolute;
    clock_gettime(CLOCK_MONOTONIC, &absolute);
    begin = absolute;
    absolute.tv_nsec += 5000000;
    if (absolute.tv_nsec >= 1000000000) {
      absolute.tv_nsec -= 1000000000;
      ++absolute.tv_sec;
    }
    result = syscall(SYS_futex, &never, FUTEX_WAIT_BITSET_PRIVATE, 0, &absolute, NULL, ~0U);
    EXPECT(result == -1 && errno == ETIMEDOUT);
    EXPECT(elapsed_us(&begin) >= 5000);
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    wall.tv_nsec += 1000000;
    if (wall.tv_nsec >= 1000000000) {
      wall.tv_nsec -= 1000000000;
      ++wall.tv_sec;
    }
    EXPECT(sem_timedwait(&semaphore, &wall) == -1 && errno == ETIMEDOUT);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    EXPECT_EQUAL(clock_nanosleep(CLOCK_MONOTONIC, 0, &relative, NULL), 0);
    EXPECT(elapsed_us(&begin) >= 5000);
    churn();
  }
}

static pthread_barrier_t barrier;
static atomic_int rounds[4];
static atomic_int is_last_round;
static void* meet(void* number) {
  const long own = (long)number;
  while (true) {
    if (own == 0 && is_over()) atomic_store(&is_last_round, 1);
    atomic_fetch_add(&rounds[own], 1);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 4; ++i) EXPECT_EQUAL(atomic_load(&rounds[i]), atomic_load(&rounds[own]));
    const int last = atomic_load(&is_last_round);
    churn();
    pthread_barrier_wait(&barrier);
    if (last) return NULL;
  }
}
static void barriers(void) {
  pthread_barrier_init(&barrier, NULL, 4);
  pthread_t threads[3];
  for (long i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, meet, (void*)(i + 1));
  say_ready();
  meet(NULL);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static int whose_turn;
static void* alternate(void* number) {
  const int own = (int)(long)number;
  while (!is_over()) {
    pthread_mutex_lock(&mutex);
    while (whose_turn != own && !is_over()) pthread_cond_wait(&turn_changed, &mutex);
    whose_turn = 1 - own;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&mutex);
    churn();
  }
  pthread_mutex_lock(&mutex);
  pthread_cond_broadcast(&turn_changed);
  pthread_mutex_unlock(&mutex);
  return NULL;
}
static void condition_variables(void) {
  pthread_mutex_init(&mutex, NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, alternate, (void*)1);
  say_ready();
  alternate(NULL);
  pthread_join(thread, NULL);
}

const struct Kind lock_kinds[] = {{"robust_mutex", robust_mutex},
                                  {"priority_inheritance", priority_inheritance},
                                  {"timed_waits", timed_waits},
                                  {"barriers", barriers},
                                  {"condition_variables", condition_variables},
                                  {NULL, NULL}};
