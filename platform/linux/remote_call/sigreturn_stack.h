// Stack contents that take a thread from one prepared context to the next without a tracer.
//
// The kernel restores a whole thread context from the stack when a signal handler returns
// (rt_sigreturn(2)). Any program can write such a frame:
//
//   slot ->  address of __restore_rt     a `ret` goes there: mov $15,%rax; syscall
//            struct ucontext             registers and signal mask to restore
//            struct siginfo              ignored
//            XSAVE area                  vector registers; without one, they are cleared
//
// A thread made to execute `syscall; ret` with its stack pointer at a slot makes one system call
// and then takes on the context of the frame. If that context is another `syscall; ret` with the
// stack pointer at another slot, it continues from there. No code is written anywhere, and no
// tracer need be alive to guide the thread.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace heapsnap {

class SigreturnStack {
 public:
  // Frames are put below `top`, which is exclusive.
  SigreturnStack(uint64_t top, uint64_t restore_rt) : bottom_(top), restore_rt_(restore_rt) {}

  // Puts one more frame below the others and returns the address of its slot. `extended_state` is
  // what ptrace returns as NT_X86_XSTATE.
  uint64_t push(const user_regs_struct& context, uint64_t signal_mask,
                std::span<const std::byte> extended_state);

  // What to write, from bottom() up to the top.
  uint64_t bottom() const { return bottom_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  uint64_t bottom_;
  uint64_t restore_rt_;
  std::vector<std::byte> bytes_;
};

// The XSAVE area of a signal frame, made from one in ptrace's layout: as long as the components in
// use need, with the magic numbers that tell the kernel that there is more than the old 512 bytes.
// Empty if `extended_state` is too short.
std::vector<std::byte> signal_frame_state(std::span<const std::byte> extended_state);

}  // namespace heapsnap
