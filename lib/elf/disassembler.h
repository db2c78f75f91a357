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
  // Data address that the instruction forms or touches; 0 when it has none that can be told:
  //   x86-64   RIP-relative operands of lea, mov, cmp, lock cmpxchg, ...
  //   i386     absolute operands, and those relative to a register that holds `got_base`
  //   aarch64  adr; the add, ldr or str that completes an adrp, with other instructions and
  //            forward jumps in between; and those relative to an address completed before
  // Operands with an index register and thread-local ones (%fs:, %gs:) have none.
  uint64_t data_address = 0;
  bool is_address_load = false;  // lea, adrp+add: takes the address without touching the memory
  bool is_store = false;         // writes the memory at data_address
  uint64_t call_target = 0;      // direct call or jump; 0 when none
  bool is_call = false;
  bool is_return = false;
};

// Decodes `code`, which lies at `address`, from its first byte on until the end or the first byte
// that is no instruction, at most 1 MiB of it. On aarch64, where instructions are words, one of an
// extension newer than the decoder comes without facts and the next is decoded; only the
// permanently undefined ones (udf, zeros) end the code. `got_base` (i386 only): value of
// _GLOBAL_OFFSET_TABLE_; %ebx is taken to hold it at the start, and any register that the code sets
// to it (call, add $_GLOBAL_OFFSET_TABLE_) does from there on.
std::vector<Instruction> disassemble(Machine machine, std::span<const std::byte> code,
                                     uint64_t address, uint64_t got_base = 0);

// Loads what disassembling takes (loaded_capstone.cpp) before the first use does: files are read
// for that, so it is done before a target is stopped or altered. Throws Error{kUnsupported} where
// it is not installed, as the first use would.
void load_disassembler();

}  // namespace heapsnap
