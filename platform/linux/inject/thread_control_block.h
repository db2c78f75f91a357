// What it takes to make a thread control block with which the C library takes a bare clone for one
// of its threads, long enough for a pthread_create.
//
//   libc's variables ...      below the thread pointer: what the loader would have put there for a
//                             new thread, except for the arena that malloc is to use (if known)
//   thread pointer ->  +0x00  tcb, itself         copied from the caller: the stack guard and the
//                      +0x08  dtv                 pointer guard
//                      +0x10  self, itself
//                      +0x18  multiple_threads = 1
//                      +0x28  stack guard
//                      +0x30  pointer guard
//                             ...
//                             struct pthread: own tid, zeros otherwise
//
// (struct tcbhead_t, sysdeps/x86_64/nptl/tls.h; the same in glibc 2.17 to 2.41.)
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "target/memory_reader.h"

namespace heapsnap {

// libc's thread-local variables as a new thread finds them.
struct ThreadLocalBlock {
  int64_t offset = 0;  // from the thread pointer; negative
  std::vector<std::byte> bytes{};
};

struct ThreadControlBlockLayout {
  Address pthread_create;
  ThreadLocalBlock variables{};
  Address main_arena{};  // of libc's malloc; null if it is not known
  // Offset of struct rseq in the control block, if the C library registers one (2.35).
  std::optional<int64_t> rseq_offset{};
  // The byte by which the C library knows that there is only one thread, so that it skips locks
  // (2.35 and later; null before). The first pthread_create clears it before anything else.
  Address single_threaded;
  // Whether the only thread of a process, stopped with these registers, may be in the middle of
  // code that relies on its being the only one.
  std::function<bool(const user_regs_struct&)> relies_on_being_alone{};
};

inline constexpr size_t kControlBlockSize = 8192;  // struct pthread has about 2,300 bytes

// How many bytes a control block needs below the thread pointer.
uint64_t bytes_below_thread_pointer(const ThreadControlBlockLayout& layout);

// What the control block of the caller shows.
struct CallerControlBlock {
  uint64_t stack_guard = 0;
  uint64_t pointer_guard = 0;
  uint64_t tid_offset = 0;             // of the word in struct pthread that holds the tid
  std::vector<std::byte> rseq_area{};  // 32 bytes, where the layout has an offset
  // Offset of the variable thread_arena from the thread pointer, if the caller shows it.
  std::optional<int64_t> thread_arena{};
};
// Parses the first bytes of the caller's control block. `tid` is the caller's in the pid namespace
// of the target. nullopt if the block is not one of glibc's.
std::optional<CallerControlBlock> parse_control_block(std::span<const std::byte> bytes, int tid);

// Offset of thread_arena from a thread pointer: the one of the variables of the thread at
// `thread_pointer` that points to an arena. nullopt if main_arena is not known, or if the thread
// has none because it has allocated nothing.
std::optional<int64_t> find_thread_arena(MemoryReader& memory,
                                         const ThreadControlBlockLayout& layout,
                                         Address thread_pointer);

// The bytes from `below` bytes below the thread pointer, which is at least
// bytes_below_thread_pointer(), to the end of the control block, for a thread pointer at
// `thread_pointer`.
std::vector<std::byte> make_control_block(const ThreadControlBlockLayout& layout,
                                          const CallerControlBlock& caller, Address thread_pointer,
                                          uint64_t below);

}  // namespace heapsnap
