// What the record of a freeze says in words where something went other than it should.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/linux/freeze/malloc_exit.h"
#include "platform/linux/trace/ptrace_session.h"
#include "target/address_space.h"

namespace heapsnap {

// The target stood for a copy that was then of no use.
std::string stood_before_note(uint64_t nanoseconds);
// Threads that could not be brought out of the allocator, and where some of them stood in `space`.
std::string still_inside_note(const std::vector<StuckThread>& threads, const AddressSpace& space);
// Threads in a signal handler that interrupted the allocator.
std::string handlers_note(uint64_t threads);
// A thread that made system calls for us went on before it was let go.
std::string way_back_note(int tid);
// Processes in the memory of the target, stopped and not.
std::vector<std::string> sharer_notes(const PtraceSession& session);

}  // namespace heapsnap
