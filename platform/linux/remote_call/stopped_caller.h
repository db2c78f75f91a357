// A stopped thread of the target that makes system calls for heapsnap, including clone(2).
//
//   stack of the thread         what is put there
//   ------------------------    ---------------------------------------------------------------
//   ... its own frames
//   sp -> ...
//   128 bytes red zone          untouched
//   return frame                the thread as it was: registers, signal mask, vector registers
//   frames of the clone         what the clone does: one system call after the other, then exit
//                               (a clone may have a stack elsewhere instead)
//
// With these in place, the thread is made to execute an existing `syscall; ret` with its stack
// pointer at the return frame. From then on it needs no tracer: the call is made, `ret` and
// rt_sigreturn return the thread to where it was, and the system call that the stop interrupted is
// restarted. That is what happens if heapsnap is killed in between. Otherwise the thread is stopped
// right after its system call and its registers are restored, so the kernel resumes an interrupted
// sleep with the remaining time.
//
// docs/freezing.md explains the order of the steps, and why none of them may be swapped.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "platform/linux/remote_call/syscall_gadget.h"
#include "platform/linux/trace/tracee.h"
#include "platform/linux/trace/tracee_memory.h"

namespace heapsnap {

struct SystemCall {
  long number = 0;
  std::array<uint64_t, 6> arguments{};
};

// Registers with which a thread at `syscall; ret` makes `call` and continues at `stack_pointer`.
// Everything that the call does not need is as in `like`.
user_regs_struct registers_for(const SystemCall& call, const user_regs_struct& like,
                               uint64_t gadget, uint64_t stack_pointer);

class StoppedCaller {
 public:
  enum class Outcome : uint8_t {
    kCloned,   // the clone exists; the thread is stopped after or inside its system call
    kRefused,  // the kernel refused; the thread is stopped with its own registers
    kStuck,    // still inside the system call; it will return by itself
    kGone,     // the thread has exited
  };

  // Stored above the frames while the thread is in use, at note_address(): the name that a copy
  // takes (copy_reaper.h).
  static constexpr std::array<char, 16> kNote{"heapsnap-copy"};

  // `thread` is at Stop::kTrap and was found fit, with its frames below `frame_top`
  // (caller_choice.h). The code at `gadget` is checked before the first call: if it is gone, none
  // is made.
  StoppedCaller(Tracee& thread, const SyscallGadget& gadget, uint64_t frame_top)
      : thread_(thread), memory_(thread), gadget_(gadget), frame_top_(frame_top) {}
  StoppedCaller(const StoppedCaller&) = delete;
  StoppedCaller& operator=(const StoppedCaller&) = delete;
  // Calls give_back() unless that was done.
  ~StoppedCaller() { give_back(); }

  // Makes one call that ends soon by itself, and returns its result or -errno. The thread is
  // stopped after it, ready for another; nullopt if it is gone or out of reach, and then no other
  // call may be made.
  std::optional<long> call(const SystemCall& call, TraceClock::time_point deadline);

  int tid() const { return thread_.tid(); }
  uint64_t note_address() const { return frame_top_ - kNote.size(); }

  // Clones with `flags`; the clone has all signals blocked, is traced by the caller and stops
  // before it does anything. Once detached, it makes the calls of `chain` in turn; the last one
  // must not return. Waits for the kernel until `deadline`.
  Outcome clone(uint64_t flags, std::span<const SystemCall> chain, TraceClock::time_point deadline);
  // The same with a complete SYS_clone of the caller's, whose stack is not the thread's and tells
  // the clone what to do. It is traced by the caller and stops before it does anything.
  Outcome clone(const SystemCall& call, TraceClock::time_point deadline);

  pid_t clone_pid() const { return clone_pid_; }
  // After kRefused: the errno; 0 if unknown.
  int refusal() const { return refusal_; }
  // Stack pointer of the clone: where its first frame is, in its own memory as in the thread's.
  uint64_t clone_stack() const { return clone_stack_; }

  // Lets the system call end, if it has not, and restores everything. `meanwhile` is called when
  // the thread has been resumed and has to wait for its clone (CLONE_VFORK). Afterwards the thread
  // is stopped where it was. Returns false if it could not be stopped: it returned by itself, or
  // will.
  bool give_back(const std::function<void()>& meanwhile = {}) noexcept;

 private:
  bool lay_frames(std::span<const SystemCall> chain);
  bool aim_at(const SystemCall& call);
  Outcome await_clone(TraceClock::time_point deadline);
  bool wait_for_stop(TraceClock::time_point deadline);
  bool is_before_call() const;
  bool is_behind_call() const;
  bool is_going_home() const;
  void put_back() noexcept;

  Tracee& thread_;
  TraceeMemory memory_;
  SyscallGadget gadget_;
  uint64_t frame_top_;
  bool in_use_ = false;
  user_regs_struct own_registers_{};
  uint64_t own_mask_ = 0;
  std::vector<std::byte> own_stack_;  // the bytes that the frames replaced
  uint64_t frames_ = 0;               // where they begin
  uint64_t home_ = 0;                 // the slot of the return frame
  uint64_t clone_stack_ = 0;
  pid_t clone_pid_ = 0;
  int refusal_ = 0;
};

// Bytes of stack, red zone included, for the frames of a clone with `chain_length` calls.
uint64_t stack_needed(size_t extended_state_size, size_t chain_length);

}  // namespace heapsnap
