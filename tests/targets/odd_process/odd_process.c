// A process of a kind that is met seldom, and that knows whether it goes on as it should.
//
//   odd_process KIND TRUTH_FILE [ARGUMENT...]
//   odd_process --list
//
// Says "ready PID" when it is what it is to be, or "skipped: why". Works until `is_over` is set in
// the file, which holds a struct Truth; ends with 0. What it found wrong is in the file.
#include "odd_process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

struct Truth* truth;
const char* program_name;
char** program_arguments;

static const struct Kind* const kKinds[] = {
    signal_kinds,    handler_kinds, child_kinds,     thread_kinds, lock_kinds,  stack_kinds,
    processor_kinds, memory_kinds,  allocator_kinds, file_kinds,   limit_kinds, rights_kinds};

void wrong(const char* file, int line, const char* what, long value) {
  const int kept = errno;
  atomic_fetch_add(&truth->errors, 1);
  if (atomic_exchange(&truth->has_text, 1) == 0) {
    const char* const name = strrchr(file, '/');
    snprintf(truth->text, sizeof truth->text, "%s:%d: %s (%ld)", name ? name + 1 : file, line, what,
             value);
  }
  errno = kept;
}

static void say(const char* line) {
  if (write(1, line, strlen(line)) < 0) _exit(3);
}

void say_ready(void) {
  char line[64];
  snprintf(line, sizeof line, "ready %d\n", (int)getpid());
  say(line);
}

void skip(const char* why) {
  char line[200];
  snprintf(line, sizeof line, "skipped: %s (%s)\n", why, strerror(errno));
  say(line);
  _exit(77);
}

void churn(void) {
  enum { kBlocks = 24 };
  unsigned char* blocks[kBlocks];
  for (size_t i = 0; i < kBlocks; ++i) {
    const size_t size = 16 + i * i * 40;
    blocks[i] = malloc(size);
    if (blocks[i] == NULL) {
      wrong(__FILE__, __LINE__, "malloc", errno);
      continue;
    }
    memset(blocks[i], (int)i + 1, size);
  }
  for (size_t i = 0; i < kBlocks; ++i) {
    if (blocks[i] == NULL) continue;
    const size_t size = 16 + i * i * 40;
    EXPECT_EQUAL(blocks[i][0], i + 1);
    EXPECT_EQUAL(blocks[i][size - 1], i + 1);
    free(blocks[i]);
  }
  did();
}

void rest(int milliseconds) {
  EXPECT_EQUAL(poll(NULL, 0, milliseconds), 0);
}

void start_thread(void* (*body)(void*), void* argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, argument) != 0) skip("pthread_create");
  pthread_detach(thread);
}

static const struct Kind* find(const char* name) {
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; ++i) {
    for (const struct Kind* kind = kKinds[i]; kind->name != NULL; ++kind) {
      if (name == NULL) puts(kind->name);
      if (name != NULL && strcmp(kind->name, name) == 0) return kind;
    }
  }
  return NULL;
}

int main(int count, char** arguments) {
  if (count == 2 && strcmp(arguments[1], "--list") == 0) {
    find(NULL);
    return 0;
  }
  if (count < 3) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  program_name = "/proc/self/exe";
  program_arguments = arguments;
  const int file = open(arguments[2], O_RDWR | O_CLOEXEC);
  truth = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file < 0 || truth == MAP_FAILED) return 3;
  close(file);
  const struct Kind* const kind = find(arguments[1]);
  if (kind == NULL) return 2;
  kind->run();
  return 0;
}
