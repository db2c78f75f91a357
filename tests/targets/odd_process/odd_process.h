// What the kinds of tests/targets/odd_process share: the page in which a process tells the truth
// of itself, and ordinary work with malloc.
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Shared with tests/e2e/odd_processes.py, which reads it at any moment without the process.
struct Truth {
  _Atomic uint64_t work;    // rises while the process does what it is to do
  _Atomic uint64_t errors;  // what was not as it should be
  _Atomic uint32_t is_over;
  _Atomic uint32_t has_text;
  char text[232];  // the first error
};
extern struct Truth* truth;

struct Kind {
  const char* name;
  void (*run)(void);
};
// Each ends with a kind without a name.
extern const struct Kind signal_kinds[];
extern const struct Kind handler_kinds[];
extern const struct Kind child_kinds[];
extern const struct Kind thread_kinds[];
extern const struct Kind lock_kinds[];
extern const struct Kind stack_kinds[];
extern const struct Kind processor_kinds[];
extern const struct Kind memory_kinds[];
extern const struct Kind allocator_kinds[];
extern const struct Kind file_kinds[];
extern const struct Kind limit_kinds[];
extern const struct Kind rights_kinds[];

extern const char* program_name;  // to execute again: by /proc/self/exe
extern char** program_arguments;  // of main

// Tells of a thing that is not as it should be. Keeps errno.
void wrong(const char* file, int line, const char* what, long value);
#define EXPECT(condition)                                                 \
  do {                                                                    \
    if (!(condition)) wrong(__FILE__, __LINE__, #condition, (long)errno); \
  } while (0)
#define EXPECT_EQUAL(actual, wanted)                                         \
  do {                                                                       \
    const long actual_value = (long)(actual);                                \
    if (actual_value != (long)(wanted))                                      \
      wrong(__FILE__, __LINE__, #actual " is to be " #wanted, actual_value); \
  } while (0)

// One piece of work is done.
static inline void did(void) {
  atomic_fetch_add_explicit(&truth->work, 1, memory_order_relaxed);
}
static inline bool is_over(void) {
  return atomic_load_explicit(&truth->is_over, memory_order_relaxed) != 0;
}

// Says that the process is what it is to be. The process that is meant is the caller's.
void say_ready(void);
// Says why it cannot be that here, and ends.
_Noreturn void skip(const char* why);

// Allocates, fills, checks and frees some blocks: a piece of work.
void churn(void);
// Lets the machine go on for about this long, in poll(2), which must time out.
void rest(int milliseconds);
// A thread that runs `body` and counts as one that must be there.
void start_thread(void* (*body)(void*), void* argument);
