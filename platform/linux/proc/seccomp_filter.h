// What a thread's seccomp filters let through: checked before a system call is made in that thread.
//
// A filter is a classic BPF program over this record (struct seccomp_data, seccomp(2)):
//
//   0        4      8                     16        24      64
//   | number | arch | instruction pointer | args[0] | ... [5] |
//
// A thread may have several; the kernel runs all of them and takes the most restrictive answer. A
// barred call in a target does not just fail: it can kill the target (SECCOMP_RET_KILL_*, and
// SECCOMP_RET_TRAP without a handler). So no call is made there that its filters do not allow.
//
// Filters belong to a thread, not to the process: ask about the thread that will make the call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace heapsnap {

enum class SeccompMode : uint8_t {
  kNone = 0,     // no filter: everything is allowed
  kStrict = 1,   // read, write, _exit and rt_sigreturn only; anything else is SIGKILL
  kFilter = 2,   // one or more programs
  kUnknown = 3,  // no such thread, or a kernel without seccomp
};

// The "Seccomp:" line of /proc/PID/status. Does no I/O.
SeccompMode parse_seccomp_mode(std::string_view status_text);
// Mode of one thread, from /proc/TID/status. The thread need not be stopped.
SeccompMode seccomp_mode(int tid);

enum class SeccompVerdict : uint8_t {
  kAllowed,     // every filter says SECCOMP_RET_ALLOW or SECCOMP_RET_LOG
  kBarred,      // some filter kills, traps, fails it, or refers it to another process
  kUnreadable,  // a filter could not be read: do not make the call
};

const char* to_string(SeccompVerdict verdict);

// One instruction, laid out as struct sock_filter (linux/filter.h).
struct SeccompInstruction {
  uint16_t code = 0;
  uint8_t jump_true = 0;
  uint8_t jump_false = 0;
  uint32_t k = 0;
};
static_assert(sizeof(SeccompInstruction) == 8);

// One system call as a filter sees it.
struct SeccompCall {
  uint32_t number = 0;
  uint32_t arch = 0xc000003e;  // AUDIT_ARCH_X86_64
  // Address after the syscall instruction. Few filters look at it; 0 if not known yet.
  uint64_t instruction_pointer = 0;
  std::array<uint64_t, 6> arguments{};
};

// Longest program that the kernel accepts (BPF_MAXINSNS).
inline constexpr size_t kMaxSeccompInstructions = 4096;

// Runs one program and returns its SECCOMP_RET_* value with its data; nullopt for a program that
// the kernel would have refused: unknown or unaligned loads, jumps past the end, division by a
// constant zero, no return at the end, too long. Jumps only go forward, so it ends after at most as
// many steps as it has instructions.
std::optional<uint32_t> run_seccomp_program(std::span<const SeccompInstruction> program,
                                            const SeccompCall& call);

// All filters of one thread. Read once, queried often: a query makes no system call.
struct SeccompFilters {
  SeccompMode mode = SeccompMode::kUnknown;
  // errno of the read that failed; the programs are incomplete then. EACCES: reading needs
  // CAP_SYS_ADMIN, and heapsnap itself must run without seccomp.
  int read_error = 0;
  std::vector<std::vector<SeccompInstruction>> programs{};

  SeccompVerdict verdict(const SeccompCall& call) const;
  // Whether the worst that can happen to the call is an errno (SECCOMP_RET_ERRNO).
  bool lets_fail(const SeccompCall& call) const;
};

// Reads the filters of a thread that the caller traces and that is in a ptrace-stop. Does not throw
// if it cannot read some: mode and read_error show that.
SeccompFilters read_seccomp_filters(int tid);

// Whether the filters may change the outcome of the call; true if they cannot be read. Costs one
// ptrace(2) call for a thread without filters. The thread is traced and stopped as above.
bool is_filtered(int tid, long syscall_number);

}  // namespace heapsnap
