// What is needed to make a thread control block by which the C library takes a bare clone for one
// of its threads, long enough for a pthread_create.
//
//   tls blocks ...            below the thread pointer: what the loader would have put there for a
//                             new thread, that is, the libraries' initial thread-local variables
//   thread pointer ->  +0x00  tcb, itself         copied from the donor: the stack guard and the
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

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"

namespace heapsnap {

struct ThreadLocalBlock {
  int64_t offset = 0;  // from the thread pointer; negative
  std::vector<std::byte> bytes{};
};

struct ThreadRecipe {
  Address pthread_create;
  std::vector<ThreadLocalBlock> blocks{};
  // Of struct rseq in the control block, where the C library registers one (2.35).
  std::optional<int64_t> rseq_offset{};
  // Code in which the only thread of a process may not stand while it gets company: the allocator
  // and what hooks it, the loader, pthread_create itself.
  std::vector<AddressRange> delicate_code{};
};

inline constexpr size_t kControlBlockSize = 8192;  // struct pthread has about 2,300 bytes

// The least offset of any block: how many bytes a control block needs below the thread pointer.
uint64_t bytes_below_thread_pointer(const ThreadRecipe& recipe);

// What the control block of the donor tells.
struct DonorControlBlock {
  uint64_t stack_guard = 0;
  uint64_t pointer_guard = 0;
  uint64_t tid_offset = 0;             // of the word in struct pthread that holds the tid
  std::vector<std::byte> rseq_area{};  // 32 bytes, where the recipe has an offset
};
// Reads it out of the first bytes of the donor's control block. `tid` is the donor's in the pid
// namespace of the target. Nothing when the block is not one of glibc's.
std::optional<DonorControlBlock> parse_control_block(std::span<const std::byte> bytes, int tid);

// The bytes from the lowest TLS block to the end of the control block, for a thread pointer at
// `thread_pointer`. `below` is at least bytes_below_thread_pointer().
std::vector<std::byte> make_control_block(const ThreadRecipe& recipe,
                                          const DonorControlBlock& donor, Address thread_pointer,
                                          uint64_t below);

}  // namespace heapsnap
