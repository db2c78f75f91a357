// Gets threads that were stopped inside the allocator out of it, so that no arena is half changed.
//
// A thread is inside when it executes code of the allocator, or code that the allocator called: a
// return address into it then lies near the top of the stack. Threads that sleep in a system call
// are not inside, whatever old words lie on their stacks; the one exception are the calls that the
// allocator itself makes. Waiting for the lock of an arena happens before anything is changed.
//
// Two ways, because a thread of the target must never be single-stepped (tracee.h):
//   in the child   each such context is taken up by the copy-on-write child and stepped there, one
//                  after the other. The target runs on meanwhile and notices nothing; the copy
//                  shows the heap with those calls completed.
//   in the target  the thread runs for some microseconds while all others stand, again and again,
//                  until it is met outside; for longer and longer when it takes long.
//
// A call that consolidates long free lists takes millions of instructions. After some thousand
// steps the child runs instead, with an int3 (in its own copy of the code) at each return address
// on the stack that leads out of the allocator, and stops at system calls without making them.
//
// A signal handler that has just interrupted the allocator is not run: it may make any system call,
// which the child must not make. The child returns from it at once.
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "platform/linux/freeze/snapshot_child.h"
#include "platform/linux/trace/priority_inheritance.h"
#include "platform/linux/trace/ptrace_session.h"
#include "target/memory_reader.h"

namespace heapsnap {

using MallocText = std::vector<AddressRange>;

// How far above the stack pointer a return address is looked for.
inline constexpr size_t kNearStack = 0x300;

// `near_stack` are the words from the stack pointer upwards.
bool is_inside_malloc(const MallocText& text, const user_regs_struct& registers,
                      std::span<const uint64_t> near_stack);
// The same, reading the words where they are needed.
bool is_inside_malloc(const MallocText& text, const user_regs_struct& registers,
                      MemoryReader& memory);

// The context of one thread, complete enough to go on elsewhere.
struct ThreadContext {
  int tid = 0;
  user_regs_struct registers{};
  std::vector<std::byte> extended_state{};
  uint64_t signal_mask = 0;
};

// The contexts of those stopped threads that are inside.
std::vector<ThreadContext> threads_inside_malloc(const MallocText& text,
                                                 const PtraceSession& session,
                                                 MemoryReader& memory);

// A thread that may be in a signal handler, since it blocks signals, as it stood.
struct BlockingThread {
  user_regs_struct registers{};
  uint64_t signal_mask = 0;
};
// Those of the stopped threads, without those that are led out as `inside`.
std::vector<BlockingThread> threads_that_block_signals(const PtraceSession& session,
                                                       std::span<const ThreadContext> inside);

// How many of `threads` are in a signal handler that interrupted them inside. They are not led out:
// what the handler does until it returns is not the allocator's, and may take any time.
size_t handlers_inside_malloc(const MallocText& text, std::span<const BlockingThread> threads,
                              const AddressSpace& space, MemoryReader& memory);

// A thread that could not be got out: where it stood in the end, and what it had come to.
struct StuckThread {
  int tid = 0;
  uint64_t at = 0;
  std::string why{};
};

struct MallocExit {
  uint64_t steps = 0;  // single steps in the child, slices in the target
  std::vector<StuckThread> still_inside{};
};

// Steps each of `inside` out of the allocator in `child`, whose memory `memory` reads; leaves in
// the contexts where they came to. Bounded in steps and time.
MallocExit step_out_in_child(const MallocText& text, SnapshotChild& child, MemoryReader& memory,
                             std::vector<ThreadContext>& inside);

// Lets each thread inside run for slices until it is outside, with the priority of `inheritance`:
// on a busy machine it would not get the processor in its slice. Bounded by `deadline`.
// Throws as PtraceSession::stop_all().
MallocExit run_out_in_target(const MallocText& text, PtraceSession& session, MemoryReader& memory,
                             PriorityInheritance& inheritance, TraceClock::time_point deadline);

}  // namespace heapsnap
