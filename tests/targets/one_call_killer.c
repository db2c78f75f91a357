// A program that is killed (SIGSYS) if any of its threads makes one certain system call.
//
//   one_call_killer NUMBER kill|deny pair|alone
//
// Prints "ready", reads a line, sets the filter, prints "filtered", and reads lines, to which it
// says "works" once it, or its other thread if they are a pair, has allocated and freed. It ends
// when its input does. With "deny" the call fails with EPERM instead. It does not work for the
// calls that these lines need. A lone thread has never asked malloc for another arena.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { kNotToBeHad = 77, kBlocks = 64 };

static atomic_ulong rounds;

static void allocate(void) {
  void* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) blocks[i] = malloc(100 + i);
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  ++rounds;
}

static void* go_on(void* unused) {
  while (1) {
    allocate();
    const struct timespec rest = {0, 1000000};
    nanosleep(&rest, NULL);
  }
  return unused;
}

static void forbid(unsigned number, unsigned answer) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    _exit(kNotToBeHad);
  }
}

static void say(const char* text) {
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(1);
}

static int hear(void) {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) == 1) {
    if (byte == '\n') return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int is_alone = strcmp(argv[3], "alone") == 0;
  // The heaps grow no more, so that malloc itself makes no system call.
  mallopt(M_TOP_PAD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  pthread_t thread;
  if (!is_alone) pthread_create(&thread, NULL, go_on, NULL);
  while (!is_alone && rounds == 0) {
  }
  allocate();
  say("ready\n");
  if (!hear()) return 1;
  const int is_denied = strcmp(argv[2], "deny") == 0;
  forbid((unsigned)atoi(argv[1]), is_denied ? SECCOMP_RET_ERRNO | 1u : SECCOMP_RET_KILL_PROCESS);
  say("filtered\n");
  while (hear()) {
    const unsigned long before = rounds;
    if (is_alone) allocate();
    while (!is_alone && rounds < before + 2) {
    }
    say("works\n");
  }
  _exit(0);
}
