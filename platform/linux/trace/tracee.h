// One thread of the target under ptrace(2), attached with PTRACE_SEIZE.
//
// How it can be stopped:
//
//   kTrap       by PTRACE_INTERRUPT: on its way back to user code, nothing lost
//   kGroupStop  it was already stopped by SIGSTOP or the like, and is to stay so
//   kSignal     about to get a signal; the stop carries the signal, and detach() delivers it
//   kEvent      one of the events that set_options() asked for
//   kSyscall    at the entry or exit of a system call; only after resume_to_syscall()
//
// A stop is polled with WNOWAIT and never consumed. That matters if heapsnap is killed: the
// kernel resumes the thread with the code of the unconsumed stop, so a signal carried in it is
// delivered. A consumed one would be lost (kernel 6.18: 10 of 10; unconsumed 0 of 10).
//
// Single-stepping is left out on purpose: the trap flag survives the death of the tracer, and the
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

// The signal of a syscall-stop, with PTRACE_O_TRACESYSGOOD.
constexpr int kSyscallStop = 5 | 0x80;  // SIGTRAP

class Tracee {
 public:
  enum class Stop : uint8_t { kNone, kTrap, kGroupStop, kSignal, kEvent, kSyscall, kGone };

  // Which process gets the zombie of an exited tracee: its parent, once we have polled, or ours,
  // until it is waited for.
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
  // As last loaded or set.
  const user_regs_struct& registers() const { return registers_; }

  // Starts tracing, with `options` (PTRACE_O_*), without stopping it. Returns 0 or the errno of the
  // refusal.
  int seize(unsigned long options = 0);
  // Asks a running thread to stop as soon as it can.
  void interrupt();
  // Returns whether it is stopped or gone; loads the registers of a new stop.
  bool poll();
  // If it has exited and its zombie is kGivenUp: gives that up, and poll() then says kGone. May be
  // called in a signal handler.
  void give_up_zombie() const noexcept;
  // The same as poll(), waiting until `deadline` at most.
  bool wait(TraceClock::time_point deadline);

  // Treats it as running again: it was killed, or an execve gave its tid to another thread.
  void forget_stop() { stop_ = Stop::kNone; }

  // Each of these needs a stopped thread, and returns a failure if it is not stopped (any longer).
  bool set_registers(const user_regs_struct& registers);
  bool load_registers();
  bool is_still_stopped() const;
  bool set_options(unsigned long options);
  std::optional<uint64_t> signal_mask() const;
  bool set_signal_mask(uint64_t mask);
  std::optional<uint64_t> event_message() const;
  // The floating-point and vector state in the layout of XSAVE, `most` bytes of it; empty on
  // failure.
  std::vector<std::byte> extended_state(size_t most = SIZE_MAX) const;
  // The word at `address` of its memory.
  std::optional<long> peek(uint64_t address) const;

  // Lets it run on, still traced; a signal carried in the stop is delivered.
  bool resume();
  // The same at kGroupStop: it stays stopped until it gets SIGCONT.
  bool listen();
  // The same, but it stops again at the next entry or exit of a system call. Needs
  // PTRACE_O_TRACESYSGOOD: the code that a killed tracer leaves behind is then not a signal.
  bool resume_to_syscall();
  // Detaches it, with the signal of the stop. Only a stopped thread can be detached; returns false
  // if it was not stopped.
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
