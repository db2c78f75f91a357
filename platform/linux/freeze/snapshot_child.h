// The copy-on-write child of the target, seen as a tracee of ours.
//
// Unlike a thread of the target it may be treated as we like: it can be single-stepped and its
// system calls can be trapped, for a SIGTRAP that hits it only ends a process that nobody needs.
// It never runs the target's code but for what step() makes it run.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "platform/linux/freeze/copy_watch.h"
#include "platform/linux/remote_call/stopped_caller.h"

namespace heapsnap {

class SnapshotChild {
 public:
  // `pid` was made by a StoppedCaller and has not been waited for.
  SnapshotChild(pid_t pid, const SyscallGadget& gadget, uint64_t stack)
      : pid_(pid), gadget_(gadget), stack_(stack) {}

  pid_t pid() const { return pid_; }
  bool is_alive() const { return !ended_; }
  // Whether it ran into a fault where it had only a system call to make: it lacks pages that it
  // executes. Nothing can be asked of it then but its memory.
  bool is_crippled() const { return crippled_; }
  // From here on `watch`, which outlives it, bounds what is waited for without a deadline.
  void bound_by(CopyWatch& watch) { watch_ = &watch; }

  // Waits until it stands at its very beginning. False when it is gone, or does not stand there by
  // `deadline`. Should we die now, it goes on by its frames.
  bool await_birth(TraceClock::time_point deadline);
  // From now on it is killed when we die.
  bool bind_to_us();

  // Makes one system call in its name and waits for its end. Gives the result or -errno, nothing
  // when it is gone or crippled.
  std::optional<long> call(const SystemCall& call);
  // The same for a call that may block. end_call() gives nothing as well when the call has not
  // ended by `deadline`; then it is all that may be asked of the child, until the call has ended.
  bool begin_call(const SystemCall& call);
  std::optional<long> end_call(TraceClock::time_point deadline);
  std::optional<long> end_call();
  // Puts bytes, at most 64, where they disturb nothing, for a call to point to. 0 on failure.
  uint64_t put_bytes(const void* bytes, size_t size);

  // Memory of it, by process_vm_readv(2) and process_vm_writev(2). False when a byte is missing.
  bool read(uint64_t from, std::span<std::byte> bytes) const;
  bool write(uint64_t to, std::span<const std::byte> bytes) const;

  // Code that was put into its memory, to be entered with `function` in %rax, `argument` in %rdi
  // and `stack` as its stack pointer, and an int3 right before `end`.
  struct Execution {
    uint64_t entry = 0;
    uint64_t end = 0;
    uint64_t function = 0;
    uint64_t argument = 0;
    uint64_t stack = 0;
  };
  // Waits until it comes to `end`. False when it ran into something else.
  bool execute(const Execution& execution);

  // Moves it to the processor that the caller is on. Two who wait for each other all the time need
  // a switch there, not a wake-up.
  void share_processor() const;

  // Takes up the context of a thread of the target, and gives the one that it has come to.
  bool set_context(const user_regs_struct& registers, std::vector<std::byte>& extended_state);
  std::optional<user_regs_struct> registers() const;
  std::vector<std::byte> extended_state() const;
  // Executes one instruction. False when that ended in a fault, or the child.
  bool step();
  // Lets it run on where it is, and not make system calls.
  //   kTrap    it executed an int3
  //   kCall    it stands at a system call instruction that it would execute next
  //   kTime    it was stopped at `deadline`
  //   kFault   anything else, or it is gone
  enum class RunEnd { kTrap, kCall, kTime, kFault };
  RunEnd run(TraceClock::time_point deadline);
  // Changes one byte of its memory, code that it may only read included. Only where the mapping is
  // private: the target would see it elsewhere. Gives what was there.
  std::optional<uint8_t> replace_byte(uint64_t address, uint8_t byte) const;
  // The eight bytes at `address`.
  std::optional<uint64_t> peek(uint64_t address) const;

  // Ends it and waits until nothing is left but its zombie. As long as we do not let go of that,
  // the target's wait(2) does not show it, whatever it asks for.
  void kill() noexcept;
  // Lets go of the zombie: from now on the target can wait for it.
  void let_go_of_zombie() const noexcept;

 private:
  bool resume(int request);
  // Waits for its next stop and gives the stop's code. Nothing when it is gone.
  std::optional<int> await_stop();
  std::optional<int> resume_by(int request);
  template <typename NextStop>
  std::optional<long> end_call_by(NextStop next_stop);

  pid_t pid_;
  SyscallGadget gadget_;
  uint64_t stack_;
  CopyWatch* watch_ = nullptr;
  int call_stops_ = 0;  // of the call that is under way: one on the way in, one on the way out
  bool ended_ = false;
  bool crippled_ = false;
};

}  // namespace heapsnap
