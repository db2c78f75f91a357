// Stack contents through which a thread walks from one prepared context to the next, all by itself.
//
// The kernel restores a whole thread context from the stack when a signal handler returns
// (rt_sigreturn(2)). Such a frame can be written by anybody:
//
//   slot ->  address of __restore_rt     a `ret` goes there: mov $15,%rax; syscall
//            struct ucontext             registers and signal mask to take up
//            struct siginfo              not looked at
//            XSAVE area                  vector registers; where there is none, they are cleared
//
// A thread made to execute `syscall; ret` with its stack pointer at a slot performs one system call
// and then takes up the context of the frame. When that context is another `syscall; ret` with the
// stack pointer at another slot, it goes on from there. No code is written anywhere, and nobody
// need be alive to lead the thread along.
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

  // Puts one more frame below the others and gives the address of its slot. `extended_state` is
  // what ptrace gives as NT_X86_XSTATE.
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

// The XSAVE area of a signal frame made of one in the layout of ptrace: as long as the components
// in use need, with the marks by which the kernel knows it for more than the old 512 bytes. Empty
// for something that is too short to be one.
std::vector<std::byte> signal_frame_state(std::span<const std::byte> extended_state);

}  // namespace heapsnap
