// What the program of a process is: its machine and word size, whether it needs a loader.
#pragma once

#include <cstdint>
#include <span>

namespace heapsnap {

struct ExecutableKind {
  bool is_elf = false;
  unsigned bits = 0;     // 32 or 64
  uint16_t machine = 0;  // EM_*
  bool has_interpreter = false;
};

// Reads the ELF headers in `bytes`, which may be damaged: gives what is sound.
ExecutableKind recognize_executable(std::span<const std::byte> bytes);

}  // namespace heapsnap
