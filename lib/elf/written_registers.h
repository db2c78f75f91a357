// Which registers a decoded instruction writes.
#pragma once

#include <cstddef>

#include "elf/known_registers.h"

struct cs_insn;  // Capstone's

namespace heapsnap {

// Makes `registers` forget each register that the instruction writes. `number_of` gives the number
// there of a register by Capstone's name. `capstone` is the csh that decoded the instruction.
void forget_written(size_t capstone, const cs_insn& insn, unsigned (*number_of)(unsigned name),
                    KnownRegisters& registers);

}  // namespace heapsnap
