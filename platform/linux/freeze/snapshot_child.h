// The copy-on-write child of the target, as a tracee of ours.
//
// Unlike a thread of the target it can be treated as we like: it can be single-stepped and its
// system calls can be trapped, for a SIGTRAP only ends a process that no other needs. It runs the
// target's code only where step() or run() makes it do so.
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
  // Whether it faulted where it only had to make a system call: it lacks pages that it executes.
  // Then nothing but its memory can be used.
  bool is_crippled() const { return crippled_; }
  // From now on `watch`, which outlives it, bounds the waits that have no deadline.
  void bound_by(CopyWatch& watch) { watch_ = &watch; }

  // Waits until it is stopped at its very beginning. Returns false if it is gone, or not stopped
  // there by `deadline`. If we die now, it runs on through its frames.
  bool await_birth(TraceClock::time_point deadline);
  // From now on it is killed when we die.
  bool bind_to_us();

  // Makes one system call in it and waits for its end. Returns the result or -errno; nullopt if it
  // is gone or crippled.
  std::optional<long> call(const SystemCall& call);
  // The same for a call that may block. end_call() also returns nullopt if the call has not ended
  // by `deadline`; until it has, the child can make no other.
  bool begin_call(const SystemCall& call);
  std::optional<long> end_call(TraceClock::time_point deadline);
  std::optional<long> end_call();
  // Whether `watch` says that nothing of it may be used any more.
  bool is_void() const { return watch_ != nullptr && watch_->is_void(); }
  // Makes it SCHED_OTHER, unless `watch` has killed it.
  void end_priority();
  // For ProcessMemory::gone_when(); null without a watch.
  const std::atomic<bool>* void_flag() const {
    return watch_ == nullptr ? nullptr : &watch_->is_void();
  }
  // Whether its calls need the memory at `range`.
  bool needs(const AddressRange& range) const { return range.contains(Address(stack_)); }
  // Puts at most 64 bytes where they disturb nothing, for a call to point to. 0 on failure.
  uint64_t put_bytes(const void* bytes, size_t size);

  // Its memory, by process_vm_readv(2) and process_vm_writev(2). Return false if a byte is missing.
  bool read(uint64_t from, std::span<std::byte> bytes) const;
  bool write(uint64_t to, std::span<const std::byte> bytes) const;

  // Code that was put into its memory, to be entered with `function` in %rax, `argument` in %rdi
  // and `stack` as its stack pointer, and with an int3 right before `end`.
  struct Execution {
    uint64_t entry = 0;
    uint64_t end = 0;
    uint64_t function = 0;
    uint64_t argument = 0;
    uint64_t stack = 0;
  };
  // Waits until it reaches `end`. Returns false if it ran into something else. Others may go on
  // meanwhile: who waits for this makes a BlockingCall (kWorkOfCopy) of it.
  bool execute(const Execution& execution);

  // Moves it to the caller's processor. Two threads that wait for each other all the time need a
  // context switch there, not a wake-up.
  void share_processor() const;

  // Sets the context of a thread of the target, and reads the one that it has reached.
  bool set_context(const user_regs_struct& registers, std::vector<std::byte>& extended_state);
  std::optional<user_regs_struct> registers() const;
  std::vector<std::byte> extended_state() const;
  // Executes one instruction. Returns false if that faulted, or ended the child.
  bool step();
  // Lets it run on from where it is, without making system calls.
  //   kTrap    it executed an int3
  //   kCall    it is stopped at a system call instruction that it would execute next
  //   kTime    it was stopped at `deadline`
  //   kFault   anything else, or it is gone
  enum class RunEnd { kTrap, kCall, kTime, kFault };
  RunEnd run(TraceClock::time_point deadline);
  // Changes one byte of its memory, even of code that it may only read. Only in a private mapping:
  // the target would see it in others. Returns what was there.
  std::optional<uint8_t> replace_byte(uint64_t address, uint8_t byte) const;
  // The eight bytes at `address`.
  std::optional<uint64_t> peek(uint64_t address) const;

  // Kills it and waits until only its zombie is left. As long as we do not release that, the
  // target's wait(2) does not show it, whatever it asks for.
  void kill() noexcept;
  // Releases the zombie: from now on the target can wait for it.
  void let_go_of_zombie() const noexcept;

 private:
  bool resume(int request);
  // Waits for its next stop and returns the stop's code; nullopt if it is gone.
  std::optional<int> await_stop();
  std::optional<int> await_stop_of_code();  // the same, but no BlockingCall
  std::optional<int> resume_by(int request);
  template <typename NextStop>
  std::optional<long> end_call_by(NextStop next_stop);

  pid_t pid_;
  SyscallGadget gadget_;
  uint64_t stack_;
  CopyWatch* watch_ = nullptr;
  int call_stops_ = 0;  // of the call in progress: one at its entry, one at its exit
  bool ended_ = false;
  bool crippled_ = false;
};

}  // namespace heapsnap
