// The few instructions that run in the target for heapsnap, and the words that they walk.
//
// Two threads execute them, each with the address of the ThreadBlock as its argument:
//
//   bootstrap   created by clone(2) alone, unknown to the C library; makes the calls of
//               `bootstrap_calls` (a pthread_create) and leaves by exit(2)
//   worker      a thread of the C library like any other; takes over the bootstrap's part of
//               malloc, makes the calls of `worker_calls`, marks its beginning and end, and returns
//
// A thread that allocates gets a cache and an arena, both of which glibc takes back when a thread
// of its own returns. The bootstrap is not one, and pthread_create allocates in it: so its pointers
// to both, which are what has changed in its thread-local variables, become the worker's. If it is
// known which one is thread_arena, that is main_arena while the threads are at work, so that no
// arena is created for them; main_arena does not count them.
//
// The code is position-independent, calls nothing but what the steps name, and is in a page that
// was mapped for it: no existing code of the target is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace heapsnap {

// One call. Words named "own" hold the values that are known beforehand; the others are addresses
// of words, so that a value can also be another step's result.
struct CallStep {
  uint64_t function;
  uint64_t arguments[4];
  uint64_t result;
  uint64_t next;          // address of the step to continue with, 0 at the end
  uint64_t next_if_zero;  // the same, taken when the result is 0
  uint64_t own_function;
  uint64_t own_arguments[4];
  uint64_t unused[3];
};
static_assert(sizeof(CallStep) == 128 && offsetof(CallStep, result) == 40 &&
              offsetof(CallStep, next) == 48 && offsetof(CallStep, next_if_zero) == 56);

struct ThreadBlock {
  uint64_t bootstrap_calls;  // address of the first step
  uint64_t worker_calls;
  uint32_t worker_started;
  uint32_t worker_done;
  uint64_t worker;  // its pthread_t, which in glibc is the address of its control block
  // libc's thread-local variables: where they begin, relative to a thread pointer, and how many
  // words they are; the bootstrap's, and a copy of them from before it ran.
  int64_t variables;
  uint64_t variable_words;
  uint64_t bootstrap_variables;
  uint64_t initial_variables;
  int64_t thread_arena;  // relative to a thread pointer; 0: not known
  uint64_t main_arena;
  // For left_over_worker.h: the word with the bootstrap's tid, and where a thread of the C library
  // has its own, relative to its control block. The kernel clears both.
  uint64_t bootstrap_tid;
  uint64_t tid_offset;
};
static_assert(offsetof(ThreadBlock, worker_calls) == 8 &&
              offsetof(ThreadBlock, worker_started) == 16 &&
              offsetof(ThreadBlock, worker_done) == 20 && offsetof(ThreadBlock, worker) == 24 &&
              offsetof(ThreadBlock, variables) == 32 &&
              offsetof(ThreadBlock, variable_words) == 40 &&
              offsetof(ThreadBlock, bootstrap_variables) == 48 &&
              offsetof(ThreadBlock, initial_variables) == 56 &&
              offsetof(ThreadBlock, thread_arena) == 64 && offsetof(ThreadBlock, main_arena) == 72);

struct InjectedCode {
  std::span<const std::byte> bytes;
  // Offsets of the entry points.
  size_t bootstrap = 0;  // entered with the block in %rdi and no return address
  size_t worker = 0;     // void* worker(void* block)
  size_t copy_text = 0;  // copy_text(char* to, const char* from, size_t size)
  size_t rename = 0;     // rename(link_map* library, const char* name)
};
InjectedCode injected_code();

}  // namespace heapsnap
