// Looks at malloc's state in a process before a thread of ours uses it there.
//
// A thread of ours allocates: pthread_create, dlopen and malloc_trim do. If the program has
// overwritten words of malloc's, glibc may end it for that, at once and in our call, where without
// us it would have gone on for long. So everything that glibc could come upon is looked at first
// (heap/walk/heap_check.h), and what is damaged is left alone.
//
//   the process runs       nobody is paused; lists that change meanwhile are looked at again
//   a copy, or stopped     as for a snapshot: only if some list changes at each look, or if
//                          something looks damaged at each look
//
// Damage that is done between the look and the use is not seen.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/inject/c_library.h"
#include "tools/inject/running_program.h"

namespace heapsnap {

// A time for which all threads were stopped to be looked at.
struct LookPause {
  uint64_t threads = 0;
  std::chrono::nanoseconds duration{};
};

struct HeapLook {
  // What is damaged and where, the first of it; empty: code of ours may allocate.
  std::string damage;
  std::vector<LookPause> pauses;
};

// Throws Error{kUnsupported} if that cannot be told, and as a freeze does.
HeapLook look_at_heap(RunningProgram& target, const CLibrary& libc);

// The same; throws Error{kUnsupported} if something is damaged.
std::vector<LookPause> require_sound_heap(RunningProgram& target, const CLibrary& libc);

}  // namespace heapsnap
