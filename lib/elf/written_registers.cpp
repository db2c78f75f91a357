#include "elf/written_registers.h"

#include <capstone/capstone.h>

namespace heapsnap {

void forget_written(size_t capstone, const cs_insn& insn, unsigned (*number_of)(unsigned name),
                    KnownRegisters& registers) {
  cs_regs read;
  cs_regs written;
  uint8_t read_count = 0;
  uint8_t written_count = 0;
  if (cs_regs_access(capstone, &insn, read, &read_count, written, &written_count) != CS_ERR_OK) {
    return;
  }
  for (uint8_t i = 0; i < written_count; ++i) registers.forget(number_of(written[i]));
}

}  // namespace heapsnap
