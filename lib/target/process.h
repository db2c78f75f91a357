// What a target is, as plain data.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"

namespace heapsnap {

enum class Machine : uint8_t { kX86_64 = 1, kAarch64 = 2, kI386 = 3 };

constexpr unsigned word_size(Machine machine) {
  return machine == Machine::kI386 ? 4 : 8;
}

// The general registers of a thread, by their numbers in DWARF:
//
//   x86-64    0 rax  1 rdx  2 rcx  3 rbx  4 rsi  5 rdi  6 rbp  7 rsp  8 to 15 r8 to r15
//   aarch64   0 to 30 x0 to x30  31 sp
//   i386      0 eax  1 ecx  2 edx  3 ebx  4 esp  5 ebp  6 esi  7 edi
//
// (System V ABI, AMD64 and Intel386 supplements; DWARF for the Arm 64-bit Architecture.)
struct GeneralRegisters {
  std::array<uint64_t, 32> values{};
  bool are_known = false;
};

// How many of them the machine has, and what it calls one; "" for a number that it does not have.
constexpr unsigned general_register_count(Machine machine) {
  return machine == Machine::kX86_64 ? 16 : machine == Machine::kAarch64 ? 32 : 8;
}
const char* general_register_name(Machine machine, unsigned number);
// The number of the stack pointer.
constexpr unsigned stack_register(Machine machine) {
  return machine == Machine::kX86_64 ? 7 : machine == Machine::kAarch64 ? 31 : 4;
}

// What a stopped thread has in its registers. The first three find a heap, and are in snapshots;
// the others are what else may hold an address.
struct Registers {
  Address instruction_pointer;
  Address stack_pointer;
  Address thread_pointer;  // fs_base, TPIDR_EL0, or the base of %gs: where the thread's TLS hangs
  GeneralRegisters general = {};
  uint64_t other_base = 0;  // of x86-64: gs_base, which the C library leaves to the program
  std::vector<uint64_t> vector = {};  // vector_words(), unless it is in a system call
};

struct Thread {
  int tid = 0;
  std::string name;                    // /proc/PID/task/TID/comm; empty where unknown
  std::optional<Registers> registers;  // none when the target was never stopped (freeze `none`)
};

struct Process {
  int pid = 0;
  std::string comm;
  std::string exe;  // path as the target sees it
  std::string command_line;
  std::string hostname;
  std::string boot_id;
  uint64_t start_time_ticks = 0;  // field 22 of /proc/PID/stat: with boot_id and pid an identity
  uint32_t uid = 0;
  Machine machine = Machine::kX86_64;
  uint64_t page_size = 4096;
  uint64_t rss = 0;         // bytes resident at the instant of the freeze; 0 where unknown
  uint64_t swap = 0;        // bytes in swap
  int64_t taken_at_ns = 0;  // CLOCK_REALTIME of the freeze, nanoseconds since 1970
  int fatal_signal = 0;     // of a core: the signal that ended it; 0 when none is known
  std::string build_id;     // of the program, lower-case hex; empty where unknown
};

enum class FreezeMethod : uint8_t {
  kNone = 0,  // the target ran on while it was read
  kFork = 1,  // a copy-on-write child was read
  kStop = 2,  // it was read while all its threads were stopped
  kCore = 3,  // a core file or raw images: nothing to freeze
};

const char* to_string(FreezeMethod method);

// What was done to the target, for the person who has to answer for it.
struct FreezeRecord {
  FreezeMethod method = FreezeMethod::kNone;
  std::string why;             // why this method: one sentence, with its numbers
  uint64_t pause_ns = 0;       // from the first thread stopped to the last one let go
  uint64_t reap_pause_ns = 0;  // second, short stop, in which the forked child is reaped
  uint64_t threads = 0;
  uint64_t threads_in_malloc = 0;   // found inside the allocator and stepped out of it
  uint64_t steps = 0;               // single steps this took, over all threads
  uint64_t syscalls_restarted = 0;  // EINTR repairs
  std::vector<std::string> notes;   // anything else that an operator would want to know
};

}  // namespace heapsnap
