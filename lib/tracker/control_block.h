// What glibc keeps of each thread in its control block (struct pthread) and what the tracker would
// otherwise have to ask the kernel for: the tid, the bounds of the stack, whether the thread lives.
// A program may have barred those calls by a seccomp filter since the tracker came. futex(2), the
// only call made here, it cannot bar: malloc's own locks need it.
#pragma once

#include <cstdint>

namespace heapsnap::tracker {

// Looks where the calling thread's block has its tid; glibc 2.17 to 2.44 have it at one place.
// Until that was found, and for threads whose block is none of glibc's, the kernel is asked.
void learn_control_blocks(uint32_t own_tid);

struct ThreadIdentity {
  uint32_t tid;
  uint64_t tid_word;  // where its control block has it; 0: not known
};
ThreadIdentity own_identity();

// Whether the thread whose control block had `tid` at `tid_word` may still live. The kernel clears
// the word when the thread ends; later it may be unmapped, or be something else.
bool may_live(uint64_t tid_word, uint32_t tid);

// The lowest address of the stack that glibc gave to the calling thread, on which `sp` lies; 0 when
// the block does not say so.
uint64_t own_stack_begin(uint64_t sp);

// Whether it is that, where it can be read.
bool is_word_equal(uint64_t address, uint32_t value);

// Whether the aligned word at `address` can be read without a fault.
bool is_word_readable(uint64_t address);

}  // namespace heapsnap::tracker
