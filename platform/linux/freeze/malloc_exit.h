// Runs threads that were stopped inside the allocator out of it, so that no arena is half changed.
//
// A thread is inside if it executes code of the allocator, or code that the allocator called: a
// return address into it is then near the top of the stack. Threads that sleep in a system call are
// not inside, whatever stale words are on their stacks, except in the calls that the allocator
// itself makes. The allocator waits for the lock of an arena before it changes anything.
//
// Two ways, because a thread of the target must never be single-stepped (tracee.h):
//   in the child   the copy-on-write child takes on each such context and is stepped there, one
//                  after the other. The target runs meanwhile and notices nothing; the copy
//                  shows the heap with those calls completed.
//   in the target  the thread runs for a few microseconds while all others are stopped, again and
//                  again, until it is found outside; for longer and longer if it takes long.
//
// A call that consolidates long free lists takes millions of instructions. After a few thousand
// steps the child runs instead, with an int3 (in its own copy of the code) at each return address
// on the stack that leads out of the allocator, and stops at system calls without making them.
//
// A signal handler that has just interrupted the allocator is not run: it may make any system call,
// which the child must not make. Instead, the child returns from it at once.
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

// How far above the stack pointer to look for a return address.
inline constexpr size_t kNearStack = 0x300;

// `near_stack` are the words from the stack pointer upwards.
bool is_inside_malloc(const MallocText& text, const user_regs_struct& registers,
                      std::span<const uint64_t> near_stack);
// The same, reading the words if they are needed.
bool is_inside_malloc(const MallocText& text, const user_regs_struct& registers,
                      MemoryReader& memory);

// The context of one thread, complete enough to continue elsewhere.
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

// A thread that may be in a signal handler, since it blocks signals, as it was stopped.
struct BlockingThread {
  user_regs_struct registers{};
  uint64_t signal_mask = 0;
};
// Those of the stopped threads, without those in `inside`, which are stepped out.
std::vector<BlockingThread> threads_that_block_signals(const PtraceSession& session,
                                                       std::span<const ThreadContext> inside);

// How many of `threads` are in a signal handler that interrupted them inside. They are not stepped
// out: what the handler does until it returns is not the allocator's, and may take any time.
size_t handlers_inside_malloc(const MallocText& text, std::span<const BlockingThread> threads,
                              const AddressSpace& space, MemoryReader& memory);

// A thread that could not be run out: where it was in the end, and why.
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
// the contexts what they have become. Bounded in steps and time.
MallocExit step_out_in_child(const MallocText& text, SnapshotChild& child, MemoryReader& memory,
                             std::vector<ThreadContext>& inside);

// Lets each thread inside run in slices until it is outside, with the priority of `inheritance`:
// without that it would get no processor in its slice on a busy machine. No slice begins after
// `until`, unless the last ones ended outside the allocator's code; throws as
// PtraceSession::stop_all() if a thread cannot be stopped again by `deadline`.
MallocExit run_out_in_target(const MallocText& text, PtraceSession& session, MemoryReader& memory,
                             PriorityInheritance& inheritance, TraceClock::time_point until,
                             TraceClock::time_point deadline);

}  // namespace heapsnap
