#include "target/process.h"

namespace heapsnap {

const char* to_string(FreezeMethod method) {
  switch (method) {
    case FreezeMethod::kNone: return "none";
    case FreezeMethod::kFork: return "fork";
    case FreezeMethod::kStop: return "stop";
    case FreezeMethod::kCore: return "core";
  }
  return "unknown";
}

const char* general_register_name(Machine machine, unsigned number) {
  constexpr std::array<const char*, 16> kX86 = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi",
                                                "rbp", "rsp", "r8",  "r9",  "r10", "r11",
                                                "r12", "r13", "r14", "r15"};
  constexpr std::array<const char*, 8> kI386 = {"eax", "ecx", "edx", "ebx",
                                                "esp", "ebp", "esi", "edi"};
  constexpr std::array<const char*, 32> kAarch64 = {
      "x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",  "x8",  "x9",  "x10",
      "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21",
      "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp"};
  if (number >= general_register_count(machine)) return "";
  switch (machine) {
    case Machine::kX86_64: return kX86.at(number);
    case Machine::kAarch64: return kAarch64.at(number);
    case Machine::kI386: return kI386.at(number);
  }
  return "";
}

}  // namespace heapsnap
