// The few instructions that run in the target in our name, and the words that they walk over.
//
// Two threads execute them, each with the address of the ThreadBlock as its argument:
//
//   bootstrap   made by clone(2) alone, unknown to the C library; makes the calls of
//               `bootstrap_calls` (a pthread_create) and leaves by exit(2)
//   worker      a thread of the C library like any other; makes the calls of `worker_calls`,
//               marks its beginning and end, and returns
//
// The code is independent of its place, calls nothing but what the steps name, and lies in a page
// that was mapped for it: no existing code of the target is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace heapsnap {

// One call. Words named "own" hold the values that are known beforehand; the others are addresses
// of words, so that a value may also be another step's result.
struct CallStep {
  uint64_t function;
  uint64_t arguments[4];
  uint64_t result;
  uint64_t next;          // address of the step to go on with, 0 at the end
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
};
static_assert(offsetof(ThreadBlock, worker_calls) == 8 &&
              offsetof(ThreadBlock, worker_started) == 16 &&
              offsetof(ThreadBlock, worker_done) == 20 && offsetof(ThreadBlock, worker) == 24);

struct InjectedCode {
  std::span<const std::byte> bytes;
  // Offsets of the entry points.
  size_t bootstrap = 0;  // entered with the block in %rdi and no return address
  size_t worker = 0;     // void* worker(void* block)
  size_t copy_text = 0;  // copy_text(char* to, const char* from, size_t size)
};
InjectedCode injected_code();

}  // namespace heapsnap
