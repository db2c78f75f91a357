#include "elf/disassembler.h"

#include <capstone/capstone.h>

#include <algorithm>

#include "elf/capstone_decoder.h"
#include "elf/instruction_reader.h"

namespace heapsnap {

std::vector<Instruction> disassemble(Machine machine, std::span<const std::byte> code,
                                     uint64_t address, uint64_t got_base) {
  constexpr size_t kLongestCode = 1 << 20;
  code = code.first(std::min(code.size(), kLongestCode));
  CapstoneDecoder capstone(machine);
  const auto reader = machine == Machine::kAarch64
                          ? make_aarch64_reader(capstone.handle())
                          : make_x86_reader(capstone.handle(), machine, got_base);
  std::vector<Instruction> instructions;
  while (!code.empty()) {
    Instruction instruction{.address = address};
    if (const cs_insn* insn = capstone.decode(code, address)) {
      instruction.size = static_cast<uint8_t>(insn->size);
      reader->read(*insn, instruction);
    } else if (!reader->read_unknown(code, instruction)) {
      break;
    }
    instructions.push_back(instruction);
    code = code.subspan(instruction.size);
    address += instruction.size;
  }
  return instructions;
}

void load_disassembler() {
  const CapstoneDecoder loaded(Machine::kX86_64);
}

}  // namespace heapsnap
