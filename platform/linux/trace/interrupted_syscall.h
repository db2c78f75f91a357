// Repairs the system calls that a ptrace-stop interrupts with EINTR.
//
// The kernel restarts most blocking calls that a ptrace-stop interrupts. It does not restart a few:
// epoll_wait, semop, sigtimedwait and any socket call with a timeout return EINTR to the program,
// though no signal came (signal(7), "interruption by stop signals"). The repair changes one
// register: the result -EINTR becomes -ERESTARTNOHAND, so that the kernel itself decides when the
// thread resumes:
//
//   no signal comes     the call is restarted                      as if never stopped
//   a handler runs      the call returns EINTR after the handler   as without heapsnap
//
// This also holds for a signal that arrives between repair and release, and for one that the stop
// carries (Stop::kSignal), which a traced thread gets even if it ignores it; a repair that moved
// the instruction pointer would lose its EINTR. A relative timeout starts over.
//
// A sleep that has to resume where it was interrupted (poll, nanosleep, futex with a relative
// timeout) is continued by the kernel as restart_syscall(2). The program never makes this call, and
// its seccomp filter may not allow it: the filter then kills the thread, as it would after SIGSTOP.
// For such a thread the original call is restarted too.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <optional>
#include <span>

#include "platform/linux/trace/tracee.h"

namespace heapsnap {

// Whether `number` is an x86-64 system call that returns EINTR after a mere stop and can be
// restarted with the same arguments.
bool is_broken_by_stop(long number);

// The registers to set for a thread at a Stop::kTrap or kSignal; nullopt if the stop did not
// interrupt such a call.
std::optional<user_regs_struct> repaired_registers(const user_regs_struct& registers);

// Whether the kernel will continue the interrupted call by restart_syscall(2).
bool is_continued_by_restart(const user_regs_struct& registers);
// The registers with which the kernel restarts the call from the beginning instead.
user_regs_struct begun_anew(const user_regs_struct& registers);

// Both repairs: the registers to set for a stopped thread that the caller traces.
std::optional<user_regs_struct> repaired_registers(const Tracee& thread);

// Whether the thread was stopped inside a system call, even one that will be restarted.
bool is_in_syscall(const user_regs_struct& registers);

// The registers that restart the interrupted call from user space, where the kernel's own restart
// is not available (a sigreturn frame): as they were at the system call instruction. Outside a
// system call they are returned unchanged.
//
// A sleep that was interrupted before continues as restart_syscall(2), which only the kernel can
// resume; it becomes the original call if `code_before`, the bytes up to call_end(), shows which.
// Otherwise the call returns EINTR. So it is if the thread was stopped again before it made that
// call: a busy machine lets it run only later.
user_regs_struct restarted_registers(const user_regs_struct& registers,
                                     std::span<const std::byte> code_before = {});
// The address behind the system call instruction that the thread is in, or is about to execute for
// the kernel.
uint64_t call_end(const user_regs_struct& registers);
// The number that the code loads right before its system call, if it is one of the calls that
// restart_syscall(2) continues.
std::optional<long> restartable_number(std::span<const std::byte> code_before);

}  // namespace heapsnap
