// Machine code as the few facts that a search for data addresses needs. Capstone stays in the .cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "target/process.h"

namespace heapsnap {

struct Instruction {
  uint64_t address = 0;
  uint8_t size = 0;
  // Data address that the instruction forms or touches: x86 RIP-relative operands (lea, mov, cmp,
  // lock cmpxchg, ...), i386 absolute and GOT-relative ones, aarch64 adrp paired with the add, ldr
  // or str that completes it. 0 when it has none.
  uint64_t data_address = 0;
  bool is_address_load = false;  // lea, adrp+add: takes the address without touching the memory
  bool is_store = false;         // writes the memory at data_address
  uint64_t call_target = 0;      // direct call or jump; 0 when none
  bool is_call = false;
  bool is_return = false;
};

// Decodes `code`, which lies at `address`, from its first byte on until the end or the first byte
// that is no instruction. `got_base` (i386 only): value of _GLOBAL_OFFSET_TABLE_.
std::vector<Instruction> disassemble(Machine machine, std::span<const std::byte> code,
                                     uint64_t address, uint64_t got_base = 0);

}  // namespace heapsnap
