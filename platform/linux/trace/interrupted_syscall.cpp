#include "platform/linux/trace/interrupted_syscall.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "platform/linux/proc/seccomp_filter.h"

namespace heapsnap {

namespace {

// Results that never leave the kernel, include/linux/errno.h.
constexpr long long kRestartSys = -512;
constexpr long long kRestartNoIntr = -513;
constexpr long long kRestartNoHand = -514;
constexpr long long kRestartBlock = -516;

constexpr unsigned long long kUserCodeSegment64 = 0x33;
constexpr long kEpollPwait2 = 441;  // Linux 5.11

constexpr std::array kBrokenByStop = {
    // Never restarted after a signal, whatever SA_RESTART says.
    long{SYS_epoll_wait}, long{SYS_epoll_pwait}, kEpollPwait2, long{SYS_semop},
    long{SYS_semtimedop}, long{SYS_rt_sigtimedwait}, long{SYS_io_uring_enter},
    long{SYS_io_getevents}, long{SYS_io_pgetevents},
    // Sockets with SO_RCVTIMEO or SO_SNDTIMEO: sock_intr_errno(), include/net/sock.h.
    long{SYS_accept}, long{SYS_accept4}, long{SYS_connect}, long{SYS_recvfrom}, long{SYS_recvmsg},
    long{SYS_recvmmsg}, long{SYS_sendto}, long{SYS_sendmsg}, long{SYS_sendmmsg}, long{SYS_read},
    long{SYS_readv}, long{SYS_write}, long{SYS_writev}, long{SYS_sendfile}, long{SYS_splice},
    // shmem_fallocate() and hugetlbfs fail with EINTR whenever something is pending, and roll back.
    long{SYS_fallocate}};

long long result_of(const user_regs_struct& registers) {
  return static_cast<long long>(registers.rax);
}

constexpr size_t kSyscallSize = 2;  // `syscall`, `sysenter` and `int 0x80`

// Whether the kernel has set the registers for restart_syscall(2), and the thread has not made the
// call yet. No program makes it.
bool is_about_to_continue(const user_regs_struct& registers) {
  return registers.rax == SYS_restart_syscall && is_in_syscall(registers);
}

}  // namespace

bool is_broken_by_stop(long number) {
  return std::find(kBrokenByStop.begin(), kBrokenByStop.end(), number) != kBrokenByStop.end();
}

bool is_in_syscall(const user_regs_struct& registers) {
  return static_cast<long long>(registers.orig_rax) >= 0;
}

std::optional<user_regs_struct> repaired_registers(const user_regs_struct& registers) {
  if (!is_in_syscall(registers) || result_of(registers) != -EINTR) return std::nullopt;
  if (registers.cs != kUserCodeSegment64) return std::nullopt;  // 32-bit calls have other numbers
  if (!is_broken_by_stop(static_cast<long>(registers.orig_rax))) return std::nullopt;
  user_regs_struct repaired = registers;
  repaired.rax = static_cast<unsigned long long>(kRestartNoHand);
  return repaired;
}

bool is_continued_by_restart(const user_regs_struct& registers) {
  return is_in_syscall(registers) && result_of(registers) == kRestartBlock;
}

user_regs_struct begun_anew(const user_regs_struct& registers) {
  user_regs_struct anew = registers;
  anew.rax = static_cast<unsigned long long>(kRestartNoHand);
  return anew;
}

std::optional<user_regs_struct> repaired_registers(const Tracee& thread) {
  // A signal that is ignored stops a traced thread, too: without a tracer the kernel drops it when
  // it is sent, and the call goes on. If there is a handler, the call fails with EINTR after it.
  if (thread.stop() != Tracee::Stop::kTrap && thread.stop() != Tracee::Stop::kSignal) {
    return std::nullopt;
  }
  const user_regs_struct& registers = thread.registers();
  if (is_continued_by_restart(registers) && is_filtered(thread.tid(), SYS_restart_syscall)) {
    return begun_anew(registers);
  }
  return repaired_registers(registers);
}

std::optional<long> restartable_number(std::span<const std::byte> code_before) {
  constexpr std::array kRestartable{long{SYS_poll}, long{SYS_nanosleep}, long{SYS_clock_nanosleep},
                                    long{SYS_futex}};
  constexpr std::byte kMovEax{0xb8};  // mov $imm32,%eax
  constexpr size_t kMovSize = 5;
  for (size_t end = code_before.size(); end >= kMovSize + kSyscallSize; --end) {
    const auto mov = code_before.subspan(end - kSyscallSize - kMovSize, kMovSize);
    if (mov[0] != kMovEax) continue;
    uint32_t number = 0;
    std::memcpy(&number, mov.data() + 1, sizeof number);
    if (std::find(kRestartable.begin(), kRestartable.end(), long{number}) != kRestartable.end()) {
      return number;
    }
  }
  return std::nullopt;
}

uint64_t call_end(const user_regs_struct& registers) {
  return registers.rip + (is_about_to_continue(registers) ? kSyscallSize : 0);
}

user_regs_struct restarted_registers(const user_regs_struct& registers,
                                     std::span<const std::byte> code_before) {
  user_regs_struct restarted = registers;
  if (is_about_to_continue(registers)) {
    restarted.orig_rax = static_cast<unsigned long long>(-1);
    if (const auto number = restartable_number(code_before)) {
      restarted.rax = static_cast<unsigned long long>(*number);
    }
    return restarted;
  }
  if (!is_in_syscall(registers)) return restarted;
  restarted.orig_rax = static_cast<unsigned long long>(-1);
  const long long result = result_of(registers);
  if (result != kRestartSys && result != kRestartNoIntr && result != kRestartNoHand &&
      result != kRestartBlock) {
    return restarted;
  }
  restarted.rip -= kSyscallSize;
  restarted.rax = registers.orig_rax;
  if (registers.orig_rax == SYS_restart_syscall) {
    // Unless it is replaced, restart_syscall(2) fails with EINTR.
    if (const auto number = restartable_number(code_before)) {
      restarted.rax = static_cast<unsigned long long>(*number);
    }
  }
  return restarted;
}

}  // namespace heapsnap
