// What one decoded instruction of a machine means for its registers and for data addresses. Sees
// the instructions of a stretch of code in order, since an address may be formed over several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "elf/disassembler.h"

struct cs_insn;  // Capstone's

namespace heapsnap {

class InstructionReader {
 public:
  virtual ~InstructionReader() = default;
  // Fills in the facts of `out`, whose address and size are set.
  virtual void read(const cs_insn& insn, Instruction& out) = 0;
  // The decoder does not know what is at the start of `code`. Whether the code may go on; if so,
  // the size of `out` is set.
  virtual bool read_unknown(std::span<const std::byte> code, Instruction& out) = 0;
};

// `capstone` is the csh that decodes; it outlives the reader.
std::unique_ptr<InstructionReader> make_x86_reader(size_t capstone, Machine machine,
                                                   uint64_t got_base);
std::unique_ptr<InstructionReader> make_aarch64_reader(size_t capstone);

}  // namespace heapsnap
