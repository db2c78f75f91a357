#include "platform/linux/proc/seccomp_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "platform/linux/proc/kernel_text.h"

// Since kernel 4.4. Older C library headers do not have it.
#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

namespace heapsnap {

namespace {

static_assert(sizeof(seccomp_data) == 64);
static_assert(sizeof(SeccompInstruction) == sizeof(sock_filter));
static_assert(kMaxSeccompInstructions == BPF_MAXINSNS);

// The kernel bounds the sum of all filters of a thread: MAX_INSNS_PER_PATH (kernel/seccomp.c) is
// 32768 instructions, with four more charged for each filter.
constexpr unsigned long kMaxFilters = 32768 / (1 + 4);

constexpr size_t kDataWords = sizeof(seccomp_data) / sizeof(uint32_t);

std::array<uint32_t, kDataWords> data_words(const SeccompCall& call) {
  seccomp_data data{};
  data.nr = static_cast<int>(call.number);
  data.arch = call.arch;
  data.instruction_pointer = call.instruction_pointer;
  for (size_t i = 0; i < call.arguments.size(); ++i) data.args[i] = call.arguments[i];
  std::array<uint32_t, kDataWords> words;
  std::memcpy(words.data(), &data, sizeof(data));
  return words;
}

// Arithmetic on the accumulator; nullopt if seccomp has no such operation (seccomp_check_filter()
// leaves out BPF_MOD). The caller handles division by X == 0.
std::optional<uint32_t> arithmetic(uint16_t operation, uint32_t a, uint32_t b) {
  switch (operation) {
    case BPF_ADD: return a + b;
    case BPF_SUB: return a - b;
    case BPF_MUL: return a * b;
    case BPF_DIV: return a / b;
    case BPF_AND: return a & b;
    case BPF_OR: return a | b;
    case BPF_XOR: return a ^ b;
    // The kernel's interpreter and its JITs take the low five bits of a register.
    case BPF_LSH: return a << (b & 31);
    case BPF_RSH: return a >> (b & 31);
    default: return std::nullopt;
  }
}

std::optional<bool> condition(uint16_t operation, uint32_t a, uint32_t b) {
  switch (operation) {
    case BPF_JEQ: return a == b;
    case BPF_JGT: return a > b;
    case BPF_JGE: return a >= b;
    case BPF_JSET: return (a & b) != 0;
    default: return std::nullopt;
  }
}

// The registers of classic BPF and what one instruction does to them.
class Interpreter {
 public:
  Interpreter(std::span<const SeccompInstruction> program, const SeccompCall& call)
      : program_(program), data_(data_words(call)) {}

  std::optional<uint32_t> run() {
    // Every jump goes forward, so next_ grows with each step.
    while (next_ < program_.size()) {
      const SeccompInstruction& instruction = program_[next_++];
      if (instruction.code == (BPF_RET | BPF_K)) return instruction.k;
      if (instruction.code == (BPF_RET | BPF_A)) return a_;
      if (!step(instruction)) return std::nullopt;
      if (divided_by_zero_) return 0;
    }
    return std::nullopt;  // fell off the end
  }

 private:
  // False for what the kernel would not have accepted.
  bool step(const SeccompInstruction& instruction) {
    const uint32_t k = instruction.k;
    switch (instruction.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (k % sizeof(uint32_t) != 0 || k / sizeof(uint32_t) >= data_.size()) return false;
        a_ = data_[k / sizeof(uint32_t)];
        return true;
      case BPF_LD | BPF_W | BPF_LEN: a_ = sizeof(seccomp_data); return true;
      case BPF_LDX | BPF_W | BPF_LEN: x_ = sizeof(seccomp_data); return true;
      case BPF_LD | BPF_IMM: a_ = k; return true;
      case BPF_LDX | BPF_IMM: x_ = k; return true;
      case BPF_LD | BPF_MEM: return load(k, a_);
      case BPF_LDX | BPF_MEM: return load(k, x_);
      case BPF_ST: return store(k, a_);
      case BPF_STX: return store(k, x_);
      case BPF_MISC | BPF_TAX: x_ = a_; return true;
      case BPF_MISC | BPF_TXA: a_ = x_; return true;
      case BPF_ALU | BPF_NEG: a_ = 0 - a_; return true;
      case BPF_JMP | BPF_JA: return jump(k);
      default: break;
    }
    const bool takes_x = BPF_SRC(instruction.code) == BPF_X;
    const uint32_t operand = takes_x ? x_ : k;
    // All others have no bits outside class, operation and source.
    const uint16_t known_bits = 0x07 | 0xf0 | BPF_X;
    if ((instruction.code & ~known_bits) != 0) return false;
    if (BPF_CLASS(instruction.code) == BPF_ALU) {
      return compute(BPF_OP(instruction.code), operand, takes_x);
    }
    if (BPF_CLASS(instruction.code) == BPF_JMP) {
      const std::optional<bool> taken = condition(BPF_OP(instruction.code), a_, operand);
      return taken && jump(*taken ? instruction.jump_true : instruction.jump_false);
    }
    return false;
  }

  bool compute(uint16_t operation, uint32_t operand, bool takes_x) {
    if (operation == BPF_DIV && operand == 0) {
      // bpf_check_classic() rejects a constant 0; for X the program ends and returns 0, which is
      // SECCOMP_RET_KILL_THREAD.
      divided_by_zero_ = true;
      return takes_x;
    }
    const bool shifts = operation == BPF_LSH || operation == BPF_RSH;
    if (shifts && !takes_x && operand >= 32) return false;  // bpf_check_classic() too
    const std::optional<uint32_t> result = arithmetic(operation, a_, operand);
    if (result) a_ = *result;
    return result.has_value();
  }

  // The kernel checks all jumps when it loads a program; here one that is not taken may point
  // anywhere.
  bool jump(uint32_t distance) {
    if (distance >= program_.size() - next_) return false;
    next_ += distance;
    return true;
  }

  bool load(uint32_t index, uint32_t& into) const {
    if (index >= memory_.size()) return false;
    into = memory_[index];
    return true;
  }

  bool store(uint32_t index, uint32_t value) {
    if (index >= memory_.size()) return false;
    memory_[index] = value;
    return true;
  }

  std::span<const SeccompInstruction> program_;
  std::array<uint32_t, kDataWords> data_;
  std::array<uint32_t, BPF_MEMWORDS> memory_{};
  size_t next_ = 0;
  uint32_t a_ = 0;
  uint32_t x_ = 0;
  bool divided_by_zero_ = false;
};

bool is_let_through(uint32_t return_value) {
  const uint32_t action = return_value & SECCOMP_RET_ACTION_FULL;
  return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

bool strict_mode_allows(const SeccompCall& call) {
  // mode1_syscalls of kernel/seccomp.c; its 32-bit numbers differ and are not checked.
  return call.arch == AUDIT_ARCH_X86_64 &&
         (call.number == SYS_read || call.number == SYS_write || call.number == SYS_exit ||
          call.number == SYS_rt_sigreturn);
}

}  // namespace

const char* to_string(SeccompVerdict verdict) {
  switch (verdict) {
    case SeccompVerdict::kAllowed: return "allowed";
    case SeccompVerdict::kBarred: return "barred";
    case SeccompVerdict::kUnreadable: return "unreadable";
  }
  return "unreadable";
}

SeccompMode parse_seccomp_mode(std::string_view status_text) {
  const std::optional<uint64_t> value = status_number(status_text, "Seccomp");
  if (!value || *value > 2) return SeccompMode::kUnknown;
  return static_cast<SeccompMode>(*value);
}

SeccompMode seccomp_mode(int tid) {
  const std::optional<std::string> status =
      read_kernel_text("/proc/" + std::to_string(tid) + "/status");
  return status ? parse_seccomp_mode(*status) : SeccompMode::kUnknown;
}

std::optional<uint32_t> run_seccomp_program(std::span<const SeccompInstruction> program,
                                            const SeccompCall& call) {
  if (program.size() > kMaxSeccompInstructions) return std::nullopt;
  return Interpreter(program, call).run();
}

SeccompVerdict SeccompFilters::verdict(const SeccompCall& call) const {
  switch (mode) {
    case SeccompMode::kNone: return SeccompVerdict::kAllowed;
    case SeccompMode::kStrict:
      return strict_mode_allows(call) ? SeccompVerdict::kAllowed : SeccompVerdict::kBarred;
    case SeccompMode::kUnknown: return SeccompVerdict::kUnreadable;
    case SeccompMode::kFilter: break;
  }
  // One filter that bars the call is enough, whatever the unreadable ones say.
  bool all_read = read_error == 0 && !programs.empty();
  for (const std::vector<SeccompInstruction>& program : programs) {
    const std::optional<uint32_t> value = run_seccomp_program(program, call);
    if (!value) {
      all_read = false;
    } else if (!is_let_through(*value)) {
      return SeccompVerdict::kBarred;
    }
  }
  return all_read ? SeccompVerdict::kAllowed : SeccompVerdict::kUnreadable;
}

bool SeccompFilters::lets_fail(const SeccompCall& call) const {
  if (verdict(call) == SeccompVerdict::kAllowed) return true;
  if (mode != SeccompMode::kFilter || read_error != 0 || programs.empty()) return false;
  for (const std::vector<SeccompInstruction>& program : programs) {
    const std::optional<uint32_t> value = run_seccomp_program(program, call);
    const bool fails = value && (*value & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
    if (!fails && (!value || !is_let_through(*value))) return false;
  }
  return true;
}

SeccompFilters read_seccomp_filters(int tid) {
  SeccompFilters filters;
  filters.mode = seccomp_mode(tid);
  if (filters.mode != SeccompMode::kFilter) return filters;

  for (unsigned long index = 0; index < kMaxFilters; ++index) {
    const long count = ptrace(static_cast<__ptrace_request>(PTRACE_SECCOMP_GET_FILTER), tid,
                              reinterpret_cast<void*>(index), nullptr);
    if (count < 0) {
      // ENOENT: no filter with this index, so we have them all.
      filters.read_error = errno == ENOENT ? 0 : errno;
      return filters;
    }
    if (count == 0 || static_cast<unsigned long>(count) > kMaxSeccompInstructions) {
      filters.read_error = EINVAL;
      return filters;
    }
    std::vector<SeccompInstruction> program(static_cast<size_t>(count));
    if (ptrace(static_cast<__ptrace_request>(PTRACE_SECCOMP_GET_FILTER), tid,
               reinterpret_cast<void*>(index), program.data()) != count) {
      filters.read_error = EINVAL;
      return filters;
    }
    filters.programs.push_back(std::move(program));
  }
  filters.read_error = E2BIG;
  return filters;
}

bool is_filtered(int tid, long syscall_number) {
  if (ptrace(static_cast<__ptrace_request>(PTRACE_SECCOMP_GET_FILTER), tid, nullptr, nullptr) < 0 &&
      errno == EINVAL) {
    return false;
  }
  const SeccompCall call{.number = static_cast<uint32_t>(syscall_number)};
  return read_seccomp_filters(tid).verdict(call) != SeccompVerdict::kAllowed;
}

}  // namespace heapsnap
