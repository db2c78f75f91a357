// One thread of the target under ptrace(2), taken by PTRACE_SEIZE.
//
// How it can be stopped:
//
//   kTrap       where PTRACE_INTERRUPT caught it: on its way back to user code, nothing lost
//   kGroupStop  it was stopped by SIGSTOP and its like already, and is to stay so
//   kSignal     about to get a signal; the signal is carried in the stop and goes on with detach()
//   kEvent      one of the events that set_options() asked for
//   kSyscall    at the beginning or end of a system call; only after resume_to_syscall()
//
// A stop is looked at with WNOWAIT and never consumed. That matters if heapsnap is killed: the
// kernel lets the thread go with the code of the stop that nobody consumed, so a signal carried in
// it is delivered. Once consumed, it would be lost (kernel 6.18: 10 of 10; unconsumed 0 of 10).
//
// Single-stepping is left out on purpose: the trap flag survives the death of the tracer and the
// next instruction kills the thread with SIGTRAP (40 of 40). See docs/freezing.md.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace heapsnap {

using TraceClock = std::chrono::steady_clock;

// The signal of a stop at a system call, with PTRACE_O_TRACESYSGOOD.
constexpr int kSyscallStop = 5 | 0x80;  // SIGTRAP

class Tracee {
 public:
  enum class Stop : uint8_t { kNone, kTrap, kGroupStop, kSignal, kEvent, kSyscall, kGone };

  // Whose zombie a tracee that ended is: its parent's from the moment on at which we look, or ours
  // until somebody waits for it.
  enum class Zombie : bool { kGivenUp, kKept };

  Tracee(int process, int tid, Zombie zombie = Zombie::kGivenUp)
      : process_(process), tid_(tid), zombie_(zombie) {}

  int process() const { return process_; }
  int tid() const { return tid_; }
  Stop stop() const { return stop_; }
  bool is_stopped() const { return stop_ != Stop::kNone && stop_ != Stop::kGone; }
  bool is_gone() const { return stop_ == Stop::kGone; }
  int signal() const { return signal_; }  // at kSignal
  int event() const { return event_; }    // at kEvent: PTRACE_EVENT_*
  // As they were when last loaded or set.
  const user_regs_struct& registers() const { return registers_; }

  // Starts to trace, with `options` (PTRACE_O_*), without stopping it. Gives 0 or the errno of the
  // refusal.
  int seize(unsigned long options = 0);
  // Asks a running thread to stop as soon as it can.
  void interrupt();
  // Looks whether it stands now; loads the registers of a new stop.
  bool poll();
  // The same, waiting until `deadline` at most.
  bool wait(TraceClock::time_point deadline);

  // Takes it for running again: it was killed, or an execve gave its tid to another thread.
  void forget_stop() { stop_ = Stop::kNone; }

  // Each of these needs a stopped thread and gives false when it is not one (any more).
  bool set_registers(const user_regs_struct& registers);
  bool load_registers();
  bool still_stands() const;
  bool set_options(unsigned long options);
  std::optional<uint64_t> signal_mask() const;
  bool set_signal_mask(uint64_t mask);
  std::optional<uint64_t> event_message() const;
  // The floating-point and vector state in the layout of XSAVE; empty on failure.
  std::vector<std::byte> extended_state() const;
  // The word at `address` of its memory.
  std::optional<long> peek(uint64_t address) const;

  // Lets it run on under trace; a signal carried in the stop is delivered.
  bool resume();
  // The same at kGroupStop: it stays stopped until a SIGCONT comes.
  bool listen();
  // The same, but it stops again at the next beginning or end of a system call. Needs
  // PTRACE_O_TRACESYSGOOD: with it, the code that a killed tracer leaves behind is no signal's.
  bool resume_to_syscall();
  // Detaches it, with the signal of the stop. Only a stopped thread can be detached;
  // false when it was not one.
  bool detach();

 private:
  void take_stop(int code);
  bool resume_by(int request);

  int process_;
  int tid_;
  Zombie zombie_;
  Stop stop_ = Stop::kNone;
  int signal_ = 0;
  int event_ = 0;
  user_regs_struct registers_{};
};

}  // namespace heapsnap
