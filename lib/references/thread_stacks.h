// The stacks of threads as glibc keeps them: where each begins and ends, and which are nobody's.
//
//   stackblock                                                 stackblock + stackblock_size
//     | guard | ......... dead ......... | red zone, frames | TLS | struct pthread |
//                                                   stack pointer ^      ^ thread pointer (x86)
//
// pthread_create() maps a stack and puts the thread's control block, struct pthread, at its top.
// The control block says how far the stack reaches: the kernel merges stacks, so that a mapping may
// hold many. When a thread has ended, glibc keeps its stack for the next one, in a list
// (stack_cache); the words that the thread left there are nobody's. All lists of control blocks are
// rings through struct pthread, and their heads lie side by side in ld.so's data (up to 2.33:
// libpthread's).
//
// (nptl/descr.h, nptl/allocatestack.c of glibc 2.17 to 2.44.) Nothing of that is taken for granted:
// a control block points to itself, and links of a ring lead there and back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"
#include "references/stack_frames.h"
#include "target/target.h"

namespace heapsnap {

struct ThreadStack {
  int32_t tid = 0;
  Address control;     // the thread pointer; null of a stack that was not made by glibc
  AddressRange range;  // all of it, from the end of what is below on
  // The part in use: from the red zone up, below the lowest frame: a signal handler's stack may be
  // an array in a frame. All of `range` when the thread runs on another stack.
  AddressRange live;
  bool operator==(const ThreadStack&) const = default;
};

struct ThreadStacks {
  std::vector<ThreadStack> stacks;  // of threads with registers, ascending
  // Stacks of threads that have ended, with their thread-local storage; where a thread has not
  // been joined, without its control block. Ascending.
  std::vector<AddressRange> dead;
};

// `frames`: of the threads, as far as they are known. Reads some kilobytes for each thread.
ThreadStacks find_thread_stacks(Target& target, std::span<const ThreadFrames> frames = {});

}  // namespace heapsnap
