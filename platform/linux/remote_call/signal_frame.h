// The frame that the kernel writes onto a thread's stack when it delivers a signal, and how to find
// it.
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

// struct sigcontext_64 and struct ucontext as the kernel defines them (arch/x86/include/uapi/asm);
// libc's ucontext_t is longer.
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

// The registers that the running signal handlers of a thread have interrupted, innermost first;
// orig_rax is the system call that a thread waited in. A handler runs with its signal blocked, so a
// thread that blocks none has none; one installed with SA_NODEFER is missed. The remains of a
// handler that has returned are taken for a running one if the thread has blocked more signals
// since.
//
// Reads the stack as read_stack_pieces() does: better in a copy than while a thread is kept
// stopped.
std::vector<user_regs_struct> interrupted_by_handlers(const user_regs_struct& registers,
                                                      uint64_t signal_mask,
                                                      const AddressSpace& space,
                                                      MemoryReader& memory);

// Where a running signal handler returns to the code that it interrupted: with `code` as
// instruction pointer and `stack` as stack pointer the thread would return there now.
struct HandlerReturn {
  uint64_t code = 0;
  uint64_t stack = 0;
};
// For the innermost handler whose frame begins in the `room` bytes from `stack_pointer` on, or a
// word before (when the handler has returned to its restorer), and that has interrupted code at an
// address for which `wanted` is true. What is said above about frames also applies here. Without
// `signal_mask`, whatever looks like a frame is one: also that of a handler with SA_NODEFER or an
// unknown restorer, and the remains of one that has returned.
std::optional<HandlerReturn> find_handler_return(uint64_t stack_pointer,
                                                 std::optional<uint64_t> signal_mask, size_t room,
                                                 const std::function<bool(uint64_t)>& wanted,
                                                 MemoryReader& memory);

}  // namespace heapsnap
