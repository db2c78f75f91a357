// Repairs the system calls that a stop breaks off with EINTR.
//
// Most blocking calls that a ptrace stop interrupts are restarted by the kernel. A few are not:
// epoll_wait, semop, sigtimedwait and any socket call with a timeout give EINTR to the program,
// though no signal came (signal(7), "interruption by stop signals"). The repair changes one
// register: the result -EINTR becomes -ERESTARTNOHAND, and so the kernel itself decides when the
// thread is let go:
//
//   no signal comes     the call is made again                     as if never stopped
//   a handler runs      the call gives EINTR after the handler     as without us
//
// That holds also for a signal that arrives between repair and release, which a repair by moving
// the instruction pointer would turn into a lost EINTR. A relative timeout starts over.
//
// A sleep that is to go on where it was (poll, nanosleep, futex with a relative timeout) is
// continued by the kernel as restart_syscall(2), a call that the program never makes and that a
// list of what it may call can lack: its seccomp filter then kills it, as it would after SIGSTOP.
// Of such a thread the call is made again as well.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <optional>
#include <span>

#include "platform/linux/trace/tracee.h"

namespace heapsnap {

// Whether `number` is an x86-64 system call that gives EINTR for a stop alone and can be made again
// with the same arguments.
bool is_broken_by_stop(long number);

// The registers to set instead of those of a thread at a Stop::kTrap; nothing when it was not in
// such a call that is broken off.
std::optional<user_regs_struct> repaired_registers(const user_regs_struct& registers);

// Whether the kernel will continue the call that was interrupted by restart_syscall(2).
bool is_continued_by_restart(const user_regs_struct& registers);
// The registers with which it restarts the call instead.
user_regs_struct begun_anew(const user_regs_struct& registers);

// Both repairs: the registers to set of a thread that the caller traces and that stands.
std::optional<user_regs_struct> repaired_registers(const Tracee& thread);

// Whether the thread was stopped inside a system call, be it one that will be restarted.
bool is_in_syscall(const user_regs_struct& registers);

// The registers with which the interrupted call is restarted from user space, for when the kernel's
// own restart is not to be had (a sigreturn frame): as they were at the system call instruction.
// Outside of a system call they are given back unchanged.
//
// A sleep that was interrupted before goes on as restart_syscall(2), which only the kernel can
// resume; it becomes the call that it once was where `code_before`, the bytes up to the system call
// instruction and including it, tells which. Otherwise the call gives EINTR.
user_regs_struct restarted_registers(const user_regs_struct& registers,
                                     std::span<const std::byte> code_before = {});
// The number that code loads right before its system call, if it is one of the calls that are
// continued by restart_syscall(2).
std::optional<long> restartable_number(std::span<const std::byte> code_before);

}  // namespace heapsnap
