// Where frames can be put on a stack of a stopped thread without overwriting bytes in use.
//
//   its own stack   below its stack pointer and red zone, if it is the main thread on the main
//                   stack, or runs on the one that it was created with: that holds the thread's
//                   control block as well, above the stack. In a handler on an alternate signal
//                   stack that is a part of it, no further down than that
//   the main stack  of a main thread that runs on a coroutine's stack: below all that was ever put
//                   on the main stack. A coroutine is entered by a call, and the return address of
//                   that call is below everything that the callers keep; so what is below the
//                   lowest nonzero word is unused.
//
//   its far end     for any thread, while all are stopped: the low end of what is mapped of the
//                   main stack, if that was never used and is 64 KiB below all that was. Most of
//                   the time no thread of Go is on a stack that is known to be its own.
//
// The main stack grows when a thread writes below it, so room that is not mapped yet counts too, as
// far as its size limit and the mapping below allow.
#pragma once

#include <cstdint>
#include <optional>

#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/trace/tracee.h"

namespace heapsnap {

// How many bytes below its stack pointer a function may use (System V ABI).
constexpr uint64_t kRedZone = 128;

// The address below which `room` bytes are free; nullopt if that is not certain. `owns_main_stack`:
// no other thread is, or can get, on the main stack while this one is stopped.
std::optional<uint64_t> find_frame_place(const ProcFs& proc, const Tracee& thread, uint64_t room,
                                         bool owns_main_stack);

// The same at the far end of the main stack. `first` is the main thread; all others are stopped
// too. If heapsnap died, the two could collide only if `first` used all the stack in between before
// a thread has returned from there.
std::optional<uint64_t> find_spare_place(const ProcFs& proc, const Tracee& first, uint64_t room);

}  // namespace heapsnap
