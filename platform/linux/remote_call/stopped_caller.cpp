#include "platform/linux/remote_call/stopped_caller.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "base/alteration.h"
#include "platform/linux/remote_call/frame_place.h"
#include "platform/linux/remote_call/sigreturn_stack.h"
#include "platform/linux/trace/interrupted_syscall.h"

namespace heapsnap {

namespace {

constexpr uint64_t kAllBlocked = ~uint64_t{0};
constexpr uint64_t kDirectionAndTrapFlags = 0x500;
// Bytes of code before the instruction pointer that may show the number of a system call.
constexpr size_t kCodeLookedAt = 24;
// How long to wait for a thread that should stop at once.
constexpr std::chrono::seconds kCallPatience{2};

// Results that make the kernel restart the call (include/linux/errno.h).
bool will_restart(const user_regs_struct& registers) {
  const auto result = static_cast<long long>(registers.rax);
  return is_in_syscall(registers) && result <= -512 && result >= -516;
}

}  // namespace

uint64_t stack_needed(size_t extended_state_size, size_t chain_length) {
  constexpr uint64_t kLargestPlainFrame = 512;
  return kRedZone + StoppedCaller::kNote.size() + extended_state_size +
         (chain_length + 1) * kLargestPlainFrame + 256;
}

user_regs_struct registers_for(const SystemCall& call, const user_regs_struct& like,
                               uint64_t gadget, uint64_t stack_pointer) {
  user_regs_struct registers = like;
  registers.rip = gadget;
  registers.rsp = stack_pointer;
  registers.rax = static_cast<unsigned long long>(call.number);
  registers.orig_rax = static_cast<unsigned long long>(-1);  // no call to restart
  registers.rdi = call.arguments[0];
  registers.rsi = call.arguments[1];
  registers.rdx = call.arguments[2];
  registers.r10 = call.arguments[3];
  registers.r8 = call.arguments[4];
  registers.r9 = call.arguments[5];
  registers.eflags &= ~kDirectionAndTrapFlags;
  return registers;
}

// Writes the frames. That alters nothing of the thread: bytes below the red zone are unused.
bool StoppedCaller::lay_frames(std::span<const SystemCall> chain) {
  if (!gadget_.is_in(memory_)) return false;
  own_registers_ = thread_.registers();
  const auto mask = thread_.signal_mask();
  const std::vector<std::byte> state = thread_.extended_state();
  if (!mask || state.empty()) return false;
  own_mask_ = *mask;

  SigreturnStack stack(note_address(), gadget_.restore_rt);
  std::array<std::byte, kCodeLookedAt> code{};
  memory_.read(Address(call_end(own_registers_) - code.size()), code);
  uint64_t next = note_address();  // the last call does not return, so this is never reached
  for (size_t i = chain.size(); i-- > 0;) {
    next = stack.push(registers_for(chain[i], own_registers_, gadget_.syscall_ret, next),
                      kAllBlocked, {});
  }
  clone_stack_ = next;
  // Lowest, since the thread's stack pointer is set to it: if we die before its signals are
  // blocked, a handler may run below.
  home_ = stack.push(restarted_registers(own_registers_, code), own_mask_, state);
  frames_ = stack.bottom();
  std::vector<std::byte> frames(stack.bytes().begin(), stack.bytes().end());
  const auto note = std::as_bytes(std::span(kNote));
  frames.insert(frames.end(), note.begin(), note.end());
  own_stack_.assign(frames.size(), std::byte{});
  // A part of the main stack that is not there yet is created, zero-filled, by the write.
  memory_.read(Address(frames_), own_stack_);
  return memory_.write(Address(frames_), frames);
}

// From here on the thread is altered. If we die when only the registers are set, the call is made
// with the thread's own mask, which the return frame restores as well.
bool StoppedCaller::aim_at(const SystemCall& call) {
  constexpr unsigned long kOptions =
      PTRACE_O_TRACECLONE | PTRACE_O_TRACEVFORK | PTRACE_O_TRACESYSGOOD;
  if (!in_use_ && !thread_.set_options(kOptions)) return false;
  if (!thread_.set_registers(registers_for(call, own_registers_, gadget_.syscall_ret, home_))) {
    return false;
  }
  in_use_ = true;
  return thread_.set_signal_mask(kAllBlocked);
}

// Waits for a stop that is not the beginning of a group-stop: SIGSTOP cannot be blocked. The thread
// makes its call in spite of it; once put back, it stays stopped with the others.
bool StoppedCaller::wait_for_stop(TraceClock::time_point deadline) {
  while (thread_.wait(deadline)) {
    if (thread_.stop() != Tracee::Stop::kSignal) return thread_.is_stopped();
    thread_.resume_to_syscall();
  }
  return false;
}

std::optional<long> StoppedCaller::call(const SystemCall& call, TraceClock::time_point deadline) {
  if (!in_use_ && !lay_frames({})) return std::nullopt;
  if (!aim_at(call)) {
    put_back();
    return std::nullopt;
  }
  // The thread stops at the entry of the call and is sent an interrupt, which stops it on its way
  // out, before it executes anything: only after such a stop does the kernel restart what our first
  // stop interrupted, once the thread has its own registers back.
  while (true) {
    thread_.resume_to_syscall();
    if (!wait_for_stop(deadline)) return std::nullopt;
    if (thread_.stop() != Tracee::Stop::kSyscall) {
      if (is_before_call()) continue;
      return std::nullopt;
    }
    thread_.interrupt();
    thread_.resume();
    if (!wait_for_stop(deadline) || !is_behind_call()) return std::nullopt;
    if (!will_restart(thread_.registers())) break;
  }
  return static_cast<long>(thread_.registers().rax);
}

StoppedCaller::Outcome StoppedCaller::clone(uint64_t flags, std::span<const SystemCall> chain,
                                            TraceClock::time_point deadline) {
  if (!lay_frames(chain) || !aim_at({SYS_clone, {flags, clone_stack_, 0, 0, 0, 0}})) {
    put_back();
    return thread_.load_registers() ? Outcome::kRefused : Outcome::kGone;
  }
  return await_clone(deadline);
}

StoppedCaller::Outcome StoppedCaller::clone(const SystemCall& call,
                                            TraceClock::time_point deadline) {
  if ((!in_use_ && !lay_frames({})) || !aim_at(call)) {
    put_back();
    return thread_.load_registers() ? Outcome::kRefused : Outcome::kGone;
  }
  clone_stack_ = call.arguments[1];
  return await_clone(deadline);
}

StoppedCaller::Outcome StoppedCaller::await_clone(TraceClock::time_point deadline) {
  // A clone that succeeds stops with an event. One that fails does not: the thread would return and
  // continue. So it is interrupted after a while; that does not disturb a clone in progress.
  std::chrono::microseconds patience{300};
  thread_.resume();
  while (true) {
    if (!thread_.wait(std::min(deadline, TraceClock::now() + patience))) {
      if (TraceClock::now() >= deadline || is_end_asked()) return Outcome::kStuck;
      thread_.interrupt();
      patience = std::min<std::chrono::microseconds>(patience * 2, std::chrono::milliseconds(50));
      continue;
    }
    if (thread_.is_gone()) {
      in_use_ = false;
      return Outcome::kGone;
    }
    if (thread_.stop() == Tracee::Stop::kEvent) {
      clone_pid_ = static_cast<pid_t>(thread_.event_message().value_or(0));
      return Outcome::kCloned;
    }
    if (is_before_call()) {
      thread_.resume();
      continue;
    }
    if (is_behind_call() || is_going_home()) {
      const auto result = static_cast<long long>(thread_.registers().rax);
      if (result < 0 && result > -4096) refusal_ = static_cast<int>(-result);
      put_back();
    } else if (const auto repaired = repaired_registers(thread_)) {
      // It has returned by itself, into the call that it had been stopped in.
      thread_.set_registers(*repaired);
    }
    in_use_ = false;
    return Outcome::kRefused;
  }
}

bool StoppedCaller::is_before_call() const {
  const auto& registers = thread_.registers();
  return registers.rip == gadget_.syscall_ret ||
         (registers.rip == gadget_.syscall_ret + SyscallGadget::kSyscallSize &&
          will_restart(registers));
}

bool StoppedCaller::is_behind_call() const {
  return thread_.registers().rip == gadget_.syscall_ret + SyscallGadget::kSyscallSize;
}

// In __restore_rt, before its system call.
bool StoppedCaller::is_going_home() const {
  const uint64_t offset = thread_.registers().rip - gadget_.restore_rt;
  return offset < SyscallGadget::kRestoreSize;
}

bool StoppedCaller::give_back(const std::function<void()>& meanwhile) noexcept {
  if (!in_use_) return true;
  // An interrupt that is sent while the thread is stopped at the clone event stops it on its way
  // out of the system call, before it executes anything.
  if (thread_.stop() == Tracee::Stop::kEvent) {
    thread_.interrupt();
    thread_.resume();
  }
  if (meanwhile) meanwhile();
  const auto deadline = TraceClock::now() + kCallPatience;
  while (thread_.wait(deadline) && thread_.stop() == Tracee::Stop::kEvent) {
    clone_pid_ = static_cast<pid_t>(thread_.event_message().value_or(0));  // after the deadline
    thread_.interrupt();
    thread_.resume();
  }
  const bool caught =
      thread_.is_stopped() && (is_before_call() || is_behind_call() || is_going_home());
  if (caught) put_back();
  in_use_ = false;
  return caught;
}

void StoppedCaller::put_back() noexcept {
  // If we die after the first step, the thread still returns through its frames, which are removed
  // last. In the other order it would run on with all signals blocked.
  if (!in_use_) return;
  in_use_ = false;
  thread_.set_signal_mask(own_mask_);
  thread_.set_registers(own_registers_);
  memory_.write(Address(frames_), own_stack_);
}

}  // namespace heapsnap
