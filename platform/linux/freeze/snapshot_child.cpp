#include "platform/linux/freeze/snapshot_child.h"

#include <elf.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "platform/linux/proc/blocking_call.h"
#include "platform/linux/self/task_priority.h"
#include "platform/linux/trace/late_tracees.h"
#include "platform/linux/trace/tracee.h"

namespace heapsnap {

namespace {

constexpr int kMostForeignStops = 16;  // during one execution or call

bool is_fault(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
}

}  // namespace

bool SnapshotChild::await_birth(TraceClock::time_point deadline) {
  Tracee newborn(pid_, pid_, Tracee::Zombie::kKept);
  const bool born =
      newborn.wait(deadline) && newborn.is_stopped() && newborn.set_options(PTRACE_O_TRACESYSGOOD);
  ended_ = newborn.is_gone();
  return born;
}

bool SnapshotChild::bind_to_us() {
  return !ended_ && Tracee(pid_, pid_).set_options(PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
}

bool SnapshotChild::resume(int request) {
  return !ended_ && ::ptrace(static_cast<__ptrace_request>(request), pid_, nullptr, nullptr) == 0;
}

std::optional<int> SnapshotChild::await_stop() {
  const BlockingCall waiting(kWorkOfCopy);
  return await_stop_of_code();
}

std::optional<int> SnapshotChild::await_stop_of_code() {
  // Not WEXITED: its zombie is kept, and the call fails with ECHILD here.
  siginfo_t info{};
  int waited = 0;
  if (watch_ != nullptr) watch_->begin_call();
  // The next call would not return in time to look after late tracees.
  if (has_late_tracees())
    Tracee(pid_, pid_, Tracee::Zombie::kKept).wait(TraceClock::time_point::max());
  do {
    waited = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | __WALL);
  } while (waited < 0 && errno == EINTR);
  if (watch_ != nullptr) watch_->end_call();
  if (waited == 0) return info.si_status & 0xff;
  ended_ = true;
  return std::nullopt;
}

std::optional<int> SnapshotChild::resume_by(int request) {
  return resume(request) ? await_stop() : std::nullopt;
}

bool SnapshotChild::begin_call(const SystemCall& call) {
  const auto before = crippled_ ? std::nullopt : registers();
  if (!before) return false;
  user_regs_struct wanted = registers_for(call, *before, gadget_.syscall_ret, stack_);
  call_stops_ = 0;
  return ::ptrace(PTRACE_SETREGS, pid_, nullptr, &wanted) == 0 && resume(PTRACE_SYSCALL);
}

template <typename NextStop>
std::optional<long> SnapshotChild::end_call_by(NextStop next_stop) {
  constexpr int kInAndOut = 2;
  // A SIGSTOP to the whole process group, or the like, may come in between.
  for (int stops = 0; stops < kMostForeignStops; ++stops) {
    const auto signal = next_stop();
    if (!signal) return std::nullopt;
    if (*signal == kSyscallStop && ++call_stops_ == kInAndOut) {
      const auto after = registers();
      if (!after) return std::nullopt;
      return static_cast<long>(after->rax);
    }
    if (is_fault(*signal)) break;
    if (!resume(PTRACE_SYSCALL)) return std::nullopt;
  }
  // If it were resumed, it would fault again, forever.
  crippled_ = true;
  return std::nullopt;
}

std::optional<long> SnapshotChild::end_call(TraceClock::time_point deadline) {
  return end_call_by([&]() -> std::optional<int> {
    return Tracee(pid_, pid_, Tracee::Zombie::kKept).wait(deadline) ? await_stop() : std::nullopt;
  });
}

std::optional<long> SnapshotChild::end_call() {
  return end_call_by([&] { return await_stop(); });
}

std::optional<long> SnapshotChild::call(const SystemCall& call) {
  return begin_call(call) ? end_call() : std::nullopt;
}

uint64_t SnapshotChild::put_bytes(const void* bytes, size_t size) {
  std::array<char, 64> padded{};
  if (size > padded.size()) return 0;
  std::memcpy(padded.data(), bytes, size);
  const uint64_t address = stack_ - padded.size();
  return write(address, std::as_bytes(std::span(padded))) ? address : 0;
}

bool SnapshotChild::read(uint64_t from, std::span<std::byte> bytes) const {
  const iovec local{bytes.data(), bytes.size()};
  const iovec remote{reinterpret_cast<void*>(from), bytes.size()};
  const BlockingCall call("reading the copy of the process");
  return ::process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes.size());
}

bool SnapshotChild::write(uint64_t to, std::span<const std::byte> bytes) const {
  const iovec local{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const iovec remote{reinterpret_cast<void*>(to), bytes.size()};
  const BlockingCall call("writing to the copy of the process");
  return ::process_vm_writev(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes.size());
}

bool SnapshotChild::execute(const Execution& execution) {
  auto wanted = registers();
  if (!wanted) return false;
  wanted->rip = execution.entry;
  wanted->rax = execution.function;
  wanted->rdi = execution.argument;
  wanted->rsp = execution.stack;
  wanted->orig_rax = ~uint64_t{0};  // no system call to be restarted
  if (::ptrace(PTRACE_SETREGS, pid_, nullptr, &*wanted) != 0) return false;
  // A SIGSTOP to the whole process group, or the like, may come in between.
  for (int stops = 0; stops < kMostForeignStops; ++stops) {
    const auto signal = resume(PTRACE_CONT) ? await_stop_of_code() : std::nullopt;
    if (!signal || is_fault(*signal)) return false;
    const auto now = registers();
    if (!now) return false;
    if (*signal == SIGTRAP && now->rip == execution.end) return true;
  }
  return false;
}

void SnapshotChild::share_processor() const {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<size_t>(std::max(::sched_getcpu(), 0)), &here);
  ::sched_setaffinity(pid_, sizeof here, &here);
}

bool SnapshotChild::set_context(const user_regs_struct& registers,
                                std::vector<std::byte>& extended_state) {
  user_regs_struct copy = registers;
  iovec part{extended_state.data(), extended_state.size()};
  return ::ptrace(PTRACE_SETREGS, pid_, nullptr, &copy) == 0 &&
         ::ptrace(PTRACE_SETREGSET, pid_, reinterpret_cast<void*>(NT_X86_XSTATE), &part) == 0;
}

std::optional<user_regs_struct> SnapshotChild::registers() const {
  user_regs_struct registers{};
  if (::ptrace(PTRACE_GETREGS, pid_, nullptr, &registers) != 0) return std::nullopt;
  return registers;
}

std::vector<std::byte> SnapshotChild::extended_state() const {
  return Tracee(pid_, pid_).extended_state();
}

bool SnapshotChild::step() {
  return resume_by(PTRACE_SINGLESTEP) == SIGTRAP;
}

void SnapshotChild::end_priority() {
  if (watch_ != nullptr) {
    watch_->end_priority(pid_);
  } else {
    make_ordinary(pid_);
  }
}

SnapshotChild::RunEnd SnapshotChild::run(TraceClock::time_point deadline) {
  constexpr std::chrono::seconds kToStop{1};
  constexpr uint64_t kSyscallSize = 2;
  if (!resume(PTRACE_SYSEMU)) return RunEnd::kFault;
  Tracee self(pid_, pid_, Tracee::Zombie::kKept);
  if (!self.wait(deadline)) {
    self.interrupt();
    make_realtime(pid_);  // to stop, it needs a processor
    self.wait(TraceClock::now() + kToStop);
    end_priority();
  }
  ended_ = self.is_gone();
  if (!self.is_stopped()) return RunEnd::kFault;
  if (self.stop() == Tracee::Stop::kTrap) return RunEnd::kTime;
  if (self.stop() == Tracee::Stop::kSignal) {
    return self.signal() == SIGTRAP ? RunEnd::kTrap : RunEnd::kFault;
  }
  if (self.stop() != Tracee::Stop::kSyscall) return RunEnd::kFault;
  user_regs_struct before = self.registers();
  before.rip -= kSyscallSize;
  before.rax = before.orig_rax;
  before.orig_rax = ~uint64_t{0};
  return self.set_registers(before) ? RunEnd::kCall : RunEnd::kFault;
}

std::optional<uint8_t> SnapshotChild::replace_byte(uint64_t address, uint8_t byte) const {
  constexpr uint64_t kByte = 0xff;
  const auto word = peek(address);
  if (!word) return std::nullopt;
  const uint64_t changed = (*word & ~kByte) | byte;
  if (::ptrace(PTRACE_POKETEXT, pid_, reinterpret_cast<void*>(address),
               reinterpret_cast<void*>(changed)) != 0) {
    return std::nullopt;
  }
  return static_cast<uint8_t>(*word & kByte);
}

std::optional<uint64_t> SnapshotChild::peek(uint64_t address) const {
  const auto word = Tracee(pid_, pid_).peek(address);
  if (!word) return std::nullopt;
  return static_cast<uint64_t>(*word);
}

void SnapshotChild::kill() noexcept {
  if (ended_) return;
  // kill(2) requires the same user or CAP_KILL, and CAP_SYS_PTRACE is neither; but a tracee can be
  // made to end itself. If that fails too, it ends with us (PTRACE_O_EXITKILL).
  if (::kill(pid_, SIGKILL) != 0) {
    call({.number = SYS_exit_group, .arguments = {}});
    return;
  }
  siginfo_t info{};
  int waited = 0;
  do {
    waited = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | __WALL);
  } while (waited < 0 && errno == EINTR);
  ended_ = true;
}

void SnapshotChild::let_go_of_zombie() const noexcept {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | __WALL);
}

}  // namespace heapsnap
