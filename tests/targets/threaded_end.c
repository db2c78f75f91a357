// Says "ready" when all of its threads run, and when its standard input ends it ends in the way
// that its argument names, while threads of every kind are about:
//
//   asleep in a call that nobody ends, asleep in one with a timeout, busy, one that makes threads
//   which end at once, and with a second argument one that is busy in malloc
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kBlocks = 1000, kBlockSize = 7777, kSleepers = 4 };

void* volatile blocks[kBlocks];

static void* sleep_for_good(void* unused) {
  for (;;) pause();
  return unused;
}

static void* sleep_again_and_again(void* unused) {
  for (;;) usleep(1000);
  return unused;
}

static void* be_busy(void* counter) {
  for (volatile unsigned long* count = counter;;) ++*count;
  return counter;
}

static void* be_busy_in_malloc(void* unused) {
  for (unsigned i = 0;; ++i) {
    void* volatile block = malloc(100 + i % 5000);
    free(block);
  }
  return unused;
}

static void* end_at_once(void* unused) {
  return unused;
}

static void* make_threads(void* unused) {
  for (;;) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_at_once, NULL) == 0) pthread_join(thread, NULL);
  }
  return unused;
}

static int go[2];  // a pipe; closed when the end is to come

static void await_go(void) {
  char byte;
  while (read(go[0], &byte, 1) != 0) continue;
}

static void* call_exit(void* unused) {
  await_go();
  exit(6);
  return unused;
}

// Waits until the first thread has ended, or is held in its exit, and calls exit.
static void* call_exit_later(void* unused) {
  char path[64];
  await_go();
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
  for (char state = 'R'; state != 't' && state != 'Z';) {
    FILE* const stat = fopen(path, "r");
    if (stat == NULL || fscanf(stat, "%*d (threaded_end) %c", &state) != 1) abort();
    fclose(stat);
  }
  exit(0);
  return unused;
}

// Ends this thread alone, by a seccomp filter of its own.
static void* be_killed_alone(void* unused) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof code / sizeof *code, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
  syscall(SYS_getppid);
  return unused;
}

static void catch_it(int signal) {
  (void)signal;
}

// While it is traced, any thread may take the signal, and this one runs on until that one dies of
// it.
static void kill_process(int signal) {
  kill(getpid(), signal);
  for (;;) pause();
}

struct Start {
  void* (*work)(void*);
  void* argument;
};

static sem_t begun;

static void* begin(void* start) {
  const struct Start own = *(const struct Start*)start;
  sem_post(&begun);
  return own.work(own.argument);
}

// Returns when the thread runs: a tracer that stands holds a thread that has not run yet.
static void start(void* (*work)(void*), void* argument) {
  struct Start start = {work, argument};
  pthread_t thread;
  if (pthread_create(&thread, NULL, begin, &start) != 0) abort();
  while (sem_wait(&begun) != 0) continue;
}

int main(int argc, char** argv) {
  static unsigned long counter;
  int* volatile nowhere = NULL;
  const char* how = argc > 1 ? argv[1] : "";
  if (sem_init(&begun, 0, 0) != 0) abort();
  for (int i = 0; i < kBlocks; ++i) blocks[i] = malloc(kBlockSize);
  for (int i = 0; i < kSleepers; ++i) {
    start(sleep_for_good, NULL);
    start(sleep_again_and_again, NULL);
  }
  start(be_busy, &counter);
  start(make_threads, NULL);
  if (argc > 2) start(be_busy_in_malloc, NULL);

  if (pipe(go) != 0) abort();
  if (strcmp(how, "thread") == 0) start(call_exit, NULL);
  if (strcmp(how, "leave") == 0) start(call_exit_later, NULL);

  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) continue;
  close(go[1]);
  if (strcmp(how, "exit") == 0) exit(5);
  if (strcmp(how, "return") == 0) return 0;
  if (strcmp(how, "thread") == 0) pause();
  if (strcmp(how, "leave") == 0) pthread_exit(NULL);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "segv") == 0) *nowhere = 1;
  if (strcmp(how, "term") == 0) kill_process(SIGTERM);
  if (strcmp(how, "kill") == 0) kill_process(SIGKILL);
  if (strcmp(how, "realtime") == 0) kill_process(SIGRTMIN + 1);
  if (strcmp(how, "execute") == 0) execl(argv[0], argv[0], "exit", (char*)NULL);
  if (strcmp(how, "filter") == 0) {
    // A death of one thread, and signals that kill nobody, come first.
    start(be_killed_alone, NULL);
    signal(SIGUSR1, catch_it);
    signal(SIGUSR2, SIG_IGN);
    raise(SIGUSR1);
    raise(SIGUSR2);
    raise(SIGWINCH);
    for (int i = 0; i < 100; ++i) usleep(1000);
    exit(5);
  }
  return 9;
}
