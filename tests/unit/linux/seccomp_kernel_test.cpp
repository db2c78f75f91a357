// The interpreter against the kernel's own: the same programs, loaded as real filters.

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <random>

#include "platform/linux/proc/seccomp_filter.h"

using namespace heapsnap;

namespace {

using Program = std::vector<SeccompInstruction>;

// The call that is filtered; all others of the child are let through.
constexpr long kProbe = SYS_getpriority;
constexpr std::array<uint64_t, 6> kArguments = {0x1122334455667788, 2,  0xffffffff,
                                                0x8000000000000000, 31, 0xa5a5a5a55a5a5a5a};

constexpr int kRefused = 255;  // the kernel did not take the program

// The low seven bits of the accumulator become the errno of the call, so that it can be seen.
void make_visible(Program& program) {
  program.push_back({BPF_ALU | BPF_AND | BPF_K, 0, 0, 0x7f});
  program.push_back({BPF_ALU | BPF_OR | BPF_K, 0, 0, SECCOMP_RET_ERRNO});
  program.push_back({BPF_RET | BPF_A, 0, 0, 0});
}

Program begin_program() {
  return {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
          {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, static_cast<uint32_t>(kProbe)},
          {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
}

// What the kernel makes of it: the errno of the probe, kRefused, or minus the signal that it was
// killed by.
int ask_kernel(const Program& program) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    sock_fprog filter{};
    filter.len = static_cast<unsigned short>(program.size());
    filter.filter = reinterpret_cast<sock_filter*>(const_cast<SeccompInstruction*>(program.data()));
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
      ::_exit(kRefused);
    }
    errno = 0;
    ::syscall(kProbe, kArguments[0], kArguments[1], kArguments[2], kArguments[3], kArguments[4],
              kArguments[5]);
    ::_exit(errno);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::optional<uint32_t> ask_interpreter(const Program& program) {
  return run_seccomp_program(program, {.number = kProbe, .arguments = kArguments});
}

class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed) {}

  // Valid instructions in random order. Each scratch word is written first, since the kernel
  // refuses a read of one that may not have been.
  Program make() {
    Program program = begin_program();
    for (uint32_t word = 0; word < BPF_MEMWORDS; ++word) program.push_back({BPF_ST, 0, 0, word});
    const uint32_t length = 1 + below(40);
    for (uint32_t left = length; left > 0; --left) program.push_back(next(left - 1));
    make_visible(program);
    return program;
  }

 private:
  uint32_t below(uint32_t end) { return random_() % end; }
  uint32_t value() {
    constexpr std::array<uint32_t, 8> kEdges = {0,          1,          2,          31,
                                                0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    return below(2) == 0 ? kEdges[below(kEdges.size())] : random_();
  }

  // `left`: how many instructions follow before the end that makes the result visible.
  SeccompInstruction next(uint32_t left) {
    constexpr std::array<uint16_t, 9> kOperations = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_AND,
                                                     BPF_OR,  BPF_XOR, BPF_LSH, BPF_RSH};
    constexpr std::array<uint16_t, 4> kTests = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
    const uint16_t source = below(2) == 0 ? BPF_K : BPF_X;
    switch (below(12)) {
      // Not the instruction pointer, which only the kernel knows.
      case 0:
        return {BPF_LD | BPF_W | BPF_ABS, 0, 0, below(4) == 0 ? 4 * below(2) : 16 + 4 * below(12)};
      case 1: return {BPF_LD | BPF_IMM, 0, 0, value()};
      case 2: return {BPF_LDX | BPF_IMM, 0, 0, value()};
      case 3: return {BPF_LD | BPF_MEM, 0, 0, below(BPF_MEMWORDS)};
      case 4: return {BPF_LDX | BPF_MEM, 0, 0, below(BPF_MEMWORDS)};
      case 5: return {static_cast<uint16_t>(below(2) == 0 ? BPF_ST : BPF_STX), 0, 0, below(16)};
      case 6:
        return {static_cast<uint16_t>(BPF_MISC | (below(2) == 0 ? BPF_TAX : BPF_TXA)), 0, 0, 0};
      case 7:
        return {static_cast<uint16_t>(below(2) == 0 ? BPF_ALU | BPF_NEG : BPF_LD | BPF_W | BPF_LEN),
                0, 0, 0};
      case 8: return {BPF_JMP | BPF_JA, 0, 0, below(left + 1)};
      case 9:
        return {static_cast<uint16_t>(BPF_JMP | kTests[below(kTests.size())] | source),
                static_cast<uint8_t>(below(left + 1)), static_cast<uint8_t>(below(left + 1)),
                value()};
      default: return arithmetic(kOperations[below(kOperations.size())], source);
    }
  }

  SeccompInstruction arithmetic(uint16_t operation, uint16_t source) {
    uint32_t constant = value();
    if (operation == BPF_DIV && constant == 0) constant = 3;
    if (operation == BPF_LSH || operation == BPF_RSH) {
      // What a shift by 32 and more in X gives is left open by the kernel: each JIT its own.
      source = BPF_K;
      constant %= 32;
    }
    return {static_cast<uint16_t>(BPF_ALU | operation | source), 0, 0, constant};
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("random programs give what the kernel gives") {
  RandomProgram source(4711);
  int compared = 0;
  for (int round = 0; round < 1000; ++round) {
    const Program program = source.make();
    const std::optional<uint32_t> ours = ask_interpreter(program);
    REQUIRE(ours.has_value());
    const int theirs = ask_kernel(program);
    CAPTURE(round);
    // A division by X == 0 ends with 0, SECCOMP_RET_KILL_THREAD.
    const bool killed = *ours == SECCOMP_RET_KILL_THREAD;
    CHECK(theirs == (killed ? -SIGSYS : static_cast<int>(*ours & 0x7f)));
    compared += !killed;
  }
  CHECK(compared > 500);
}

TEST_CASE("what the kernel refuses gives nothing here") {
  const auto with = [](SeccompInstruction instruction) {
    Program program = begin_program();
    program.push_back(instruction);
    make_visible(program);
    return program;
  };
  const std::vector<Program> refused = {
      with({BPF_LD | BPF_W | BPF_ABS, 0, 0, 64}),  with({BPF_LD | BPF_W | BPF_ABS, 0, 0, 2}),
      with({BPF_LD | BPF_B | BPF_ABS, 0, 0, 0}),   with({BPF_LD | BPF_W | BPF_IND, 0, 0, 0}),
      with({BPF_ALU | BPF_MOD | BPF_K, 0, 0, 3}),  with({BPF_ALU | BPF_DIV | BPF_K, 0, 0, 0}),
      with({BPF_ALU | BPF_LSH | BPF_K, 0, 0, 32}), with({BPF_ST, 0, 0, 16}),
      with({BPF_JMP | BPF_JA, 0, 0, 3}),           with({0xffff, 0, 0, 0}),
  };
  CHECK(ask_kernel(with({BPF_LD | BPF_IMM, 0, 0, 5})) == 5);
  for (size_t i = 0; i < refused.size(); ++i) {
    CAPTURE(i);
    CHECK(ask_kernel(refused[i]) == kRefused);
    CHECK_FALSE(ask_interpreter(refused[i]).has_value());
  }
}
