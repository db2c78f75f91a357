#include "platform/linux/trace/tracee.h"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "platform/linux/proc/blocking_call.h"
#include "platform/linux/trace/late_tracees.h"

namespace heapsnap {

namespace {

// Larger than any existing XSAVE area (with AMX tiles: about 11 KB).
constexpr size_t kLargestXsaveArea = 65536;

void* as_data(unsigned long value) {
  return reinterpret_cast<void*>(value);
}

}  // namespace

int Tracee::seize(unsigned long options) {
  const BlockingCall call("PTRACE_SEIZE of a thread of the process");
  return ::ptrace(PTRACE_SEIZE, tid_, nullptr, as_data(options)) == 0 ? 0 : errno;
}

void Tracee::interrupt() {
  if (::ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) != 0 && errno == ESRCH) poll();
}

bool Tracee::poll() {
  if (stop_ != Stop::kNone) return true;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(tid_), &info,
               WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL) != 0) {
    // ECHILD: an execve in another thread, which takes over the leader's tid, has removed it.
    if (errno != EINTR) stop_ = Stop::kGone;
    return stop_ == Stop::kGone;
  }
  if (info.si_pid == 0) return false;
  if (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) {
    take_stop(info.si_status);
    return true;
  }
  // It has exited. Give up the tracer's share of the zombie, so that its own parent can reap it.
  give_up_zombie();
  stop_ = Stop::kGone;
  return true;
}

void Tracee::give_up_zombie() const noexcept {
  if (zombie_ != Zombie::kGivenUp || is_gone()) return;
  // Whatever is asked for, a stop of a tracee is reported, and would be consumed.
  siginfo_t info{};
  const auto id = static_cast<id_t>(tid_);
  if (::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0) return;
  if (info.si_pid == 0 || info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) return;
  ::waitid(P_PID, id, &info, WEXITED | WNOHANG | __WALL);
}

bool Tracee::wait(TraceClock::time_point deadline) {
  // A tracer with real-time priority must not spin: the awaited thread may need this processor. The
  // nap grows with the time waited, so it adds a few percent at most.
  const auto begin = TraceClock::now();
  while (!poll()) {
    look_after_late_tracees();
    const auto now = TraceClock::now();
    if (now >= deadline) return false;
    const auto nap = std::clamp<std::chrono::nanoseconds>(
        (now - begin) / 32, std::chrono::microseconds(5), std::chrono::microseconds(200));
    const timespec duration{0, static_cast<long>(nap.count())};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr);
  }
  return true;
}

void Tracee::take_stop(int code) {
  signal_ = 0;
  event_ = code >> 8;
  const int signal = code & 0xff;
  if (event_ == PTRACE_EVENT_STOP) {
    stop_ = signal == SIGTRAP ? Stop::kTrap : Stop::kGroupStop;
  } else if (event_ != 0) {
    stop_ = Stop::kEvent;
  } else if (signal == kSyscallStop) {
    stop_ = Stop::kSyscall;
  } else {
    stop_ = Stop::kSignal;
    signal_ = signal;
  }
  load_registers();
}

bool Tracee::load_registers() {
  return ::ptrace(PTRACE_GETREGS, tid_, nullptr, &registers_) == 0;
}

bool Tracee::is_still_stopped() const {
  user_regs_struct registers{};
  return ::ptrace(PTRACE_GETREGS, tid_, nullptr, &registers) == 0;
}

bool Tracee::set_registers(const user_regs_struct& registers) {
  user_regs_struct copy = registers;
  if (::ptrace(PTRACE_SETREGS, tid_, nullptr, &copy) != 0) return false;
  registers_ = registers;
  return true;
}

bool Tracee::set_options(unsigned long options) {
  return ::ptrace(PTRACE_SETOPTIONS, tid_, nullptr, as_data(options)) == 0;
}

std::optional<uint64_t> Tracee::signal_mask() const {
  uint64_t mask = 0;
  if (::ptrace(PTRACE_GETSIGMASK, tid_, as_data(sizeof mask), &mask) != 0) return std::nullopt;
  return mask;
}

bool Tracee::set_signal_mask(uint64_t mask) {
  return ::ptrace(PTRACE_SETSIGMASK, tid_, as_data(sizeof mask), &mask) == 0;
}

std::optional<uint64_t> Tracee::event_message() const {
  unsigned long message = 0;
  if (::ptrace(PTRACE_GETEVENTMSG, tid_, nullptr, &message) != 0) return std::nullopt;
  return message;
}

std::vector<std::byte> Tracee::extended_state(size_t most) const {
  std::vector<std::byte> state(std::min(most, kLargestXsaveArea));
  iovec part{state.data(), state.size()};
  if (::ptrace(PTRACE_GETREGSET, tid_, as_data(NT_X86_XSTATE), &part) != 0) return {};
  state.resize(part.iov_len);
  return state;
}

std::optional<long> Tracee::peek(uint64_t address) const {
  errno = 0;
  const long word = ::ptrace(PTRACE_PEEKTEXT, tid_, as_data(address), nullptr);
  if (errno != 0) return std::nullopt;
  return word;
}

bool Tracee::resume() {
  return resume_by(PTRACE_CONT);
}

bool Tracee::listen() {
  const bool listens = ::ptrace(PTRACE_LISTEN, tid_, nullptr, nullptr) == 0;
  stop_ = Stop::kNone;
  return listens;
}

bool Tracee::resume_to_syscall() {
  return resume_by(PTRACE_SYSCALL);
}

bool Tracee::resume_by(int request) {
  const bool resumed = ::ptrace(static_cast<__ptrace_request>(request), tid_, nullptr,
                                as_data(static_cast<unsigned long>(signal_))) == 0;
  stop_ = Stop::kNone;
  return resumed;
}

bool Tracee::detach() {
  const bool detached =
      ::ptrace(PTRACE_DETACH, tid_, nullptr, as_data(static_cast<unsigned long>(signal_))) == 0;
  if (detached) stop_ = Stop::kGone;
  return detached;
}

}  // namespace heapsnap
