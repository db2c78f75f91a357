// What the kernel writes onto the stack of a thread when it delivers a signal, and finding it
// there.
//
//   stack pointer at the first instruction of the handler ->  address of __restore_rt
//                                                             UserContext: where the thread was
//                                                             siginfo_t
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "target/address_space.h"
#include "target/memory_reader.h"

namespace heapsnap {

// struct sigcontext_64 and struct ucontext as the kernel has them (arch/x86/include/uapi/asm); the
// ucontext_t of libc is longer.
struct SignalContext {
  uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
  uint64_t di, si, bp, bx, dx, ax, cx, sp, ip, flags;
  uint16_t cs, gs, fs, ss;
  uint64_t error, trap, old_mask, fault_address;
  uint64_t extended_state;
  uint64_t reserved[8];
};
static_assert(sizeof(SignalContext) == 256);

struct UserContext {
  uint64_t flags;
  uint64_t link;
  uint64_t stack_begin;
  uint64_t stack_flags;
  uint64_t stack_size;
  SignalContext machine;
  uint64_t signal_mask;
};
static_assert(sizeof(UserContext) == 304);

// The registers that the running signal handlers of a thread have interrupted, innermost
// first; orig_rax is the system call that a thread waited in. A handler runs with its signal
// blocked, so a thread that blocks none has none; one installed with SA_NODEFER is not seen. What
// is left of a handler that has ended is taken for one that runs where the thread has blocked more
// signals since.
//
// Reads the stack as read_stack_pieces() does: better of a copy than of a thread that stands for
// it.
std::vector<user_regs_struct> interrupted_by_handlers(const user_regs_struct& registers,
                                                      uint64_t signal_mask,
                                                      const AddressSpace& space,
                                                      MemoryReader& memory);

// Where a signal handler that runs returns to what it has interrupted: with `code` as instruction
// pointer and `stack` as stack pointer the thread would return there now.
struct HandlerReturn {
  uint64_t code = 0;
  uint64_t stack = 0;
};
// That of the innermost handler whose frame begins in the `room` bytes from `stack_pointer` on and
// that has interrupted code at an address that `wanted` is true of. What is said above of frames
// goes for this one.
std::optional<HandlerReturn> find_handler_return(uint64_t stack_pointer, uint64_t signal_mask,
                                                 size_t room,
                                                 const std::function<bool(uint64_t)>& wanted,
                                                 MemoryReader& memory);

}  // namespace heapsnap
