// Held by a signal handler that interrupted malloc in its first instructions.
//
// A second thread steps through malloc by the trap flag. Behind malloc's second instruction the
// handler of the trap calls itself until it has taken so many bytes of stack as the argument says,
// prints "inside", and returns when a line comes. Then the thread goes on where it was: in the
// midst of what a tracker would have replaced, which keeps the first instruction. At the end it
// prints "fine".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

enum { kFrame = 4096, kTrapFlag = 0x100, kEntry = 16, kInstructions = 2 };

static char* entry;
static long depth;
static volatile int instructions;  // of malloc, that were executed
static volatile int is_done;

static void wait_below(long frames) {
  volatile char frame[kFrame];
  frame[0] = (char)frames;
  if (frames > 0) {
    wait_below(frames - 1);
  } else {
    char line;
    dprintf(STDOUT_FILENO, "inside\n");
    while (read(STDIN_FILENO, &line, 1) == 1 && line != '\n') {
    }
  }
  frame[kFrame - 1] = frame[0];
}

static void on_trap(int signal, siginfo_t* info, void* context) {
  (void)signal;
  (void)info;
  ucontext_t* const thread = context;
  char* const at = (char*)thread->uc_mcontext.gregs[REG_RIP];
  if (is_done || at <= entry || at >= entry + kEntry) return;
  if (++instructions < kInstructions) return;
  is_done = 1;
  thread->uc_mcontext.gregs[REG_EFL] &= ~(long long)kTrapFlag;
  wait_below(depth / kFrame);
}

static void* allocate(void* unused) {
  (void)unused;
  void* (*volatile allocate_block)(size_t) = (void* (*)(size_t))(void*)entry;
  __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
  void* const block = allocate_block(24);
  free(block);
  return NULL;
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  depth = atol(arguments[1]);
  entry = dlsym(dlopen("libc.so.6", RTLD_NOW), "malloc");
  if (entry == NULL) return 2;
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  sigaction(SIGTRAP, &action, NULL);
  pthread_t thread;
  if (pthread_create(&thread, NULL, allocate, NULL) != 0) return 2;
  pthread_join(thread, NULL);
  puts(is_done ? "fine" : "malloc was not interrupted");
  return is_done ? 0 : 2;
}
