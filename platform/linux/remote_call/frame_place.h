// Where frames may be put on a stack of a stopped thread, so that nobody else's bytes are there.
//
//   its own stack   below its stack pointer and red zone, where it runs on the main stack or on one
//                   that glibc made: that holds the thread's control block as well, above the stack
//   the main stack  of a first thread that runs on a coroutine's stack: below all that was ever put
//                   on the main stack. A coroutine is gone to by a call, and the return address of
//                   that call lies below everything that the callers keep; so what lies below the
//                   lowest word that is not zero is nobody's.
//
//   its far end     for any thread, while all stand: the low end of what is mapped of the
//                   main stack, where that was never used and lies 64 KiB below all that was. Go
//                   has no thread on a stack that is known to be its own for most of the time.
//
// The main stack grows when somebody writes below it, so room that is not mapped yet counts too, as
// far as the limit of its size and the mapping below allow.
#pragma once

#include <cstdint>
#include <optional>

#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/trace/tracee.h"

namespace heapsnap {

// Below its stack pointer a function may use so many bytes (System V ABI).
constexpr uint64_t kRedZone = 128;

// The address below which `room` bytes are free; nothing where that is not sure. `owns_main_stack`:
// no other thread is, or may come to be, on the main stack as long as this one stands.
std::optional<uint64_t> find_frame_place(const ProcFs& proc, const Tracee& thread, uint64_t room,
                                         bool owns_main_stack);

// The same at the far end of the main stack. `first` is the first thread, and all others stand too.
// Should heapsnap die, `first` would need that much more stack as lies in between, before a thread
// has returned from there, for the two to meet.
std::optional<uint64_t> find_spare_place(const ProcFs& proc, const Tracee& first, uint64_t room);

}  // namespace heapsnap
