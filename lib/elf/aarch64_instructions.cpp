#include <capstone/capstone.h>

#include <cstring>
#include <optional>
#include <string_view>

#include "elf/instruction_reader.h"
#include "elf/known_registers.h"
#include "elf/written_registers.h"

// Capstone 4.0.2, as tried: it calls the first register of a cmp written, and prefetches stores; it
// knows neither the atomics of ARMv8.1 nor memory tagging.

namespace heapsnap {

namespace {

unsigned aarch64_register_number(unsigned name) {
  if (name >= ARM64_REG_X0 && name <= ARM64_REG_X28) return name - ARM64_REG_X0;
  if (name == ARM64_REG_X29) return 29;
  if (name == ARM64_REG_X30) return 30;
  if (name >= ARM64_REG_W0 && name <= ARM64_REG_W30) return name - ARM64_REG_W0;
  return KnownRegisters::kCount;
}
// x0 to x18, x30.
constexpr uint32_t kAarch64CallClobbers = 0x4007ffff;

class Aarch64Reader final : public InstructionReader {
 public:
  explicit Aarch64Reader(csh capstone) : capstone_(capstone) {}

  void read(const cs_insn& insn, Instruction& out) override {
    flow_.arrive(insn.address);
    const cs_arm64& detail = insn.detail->arm64;
    const std::string_view mnemonic = insn.mnemonic;
    const auto result = formed_address(insn);
    if (result && insn.id != ARM64_INS_ADRP && insn.id != ARM64_INS_MOV) {
      out.data_address = *result;
      out.is_address_load = true;
    }
    for (uint8_t i = 0; i < detail.op_count && insn.id != ARM64_INS_PRFM; ++i) {
      const auto address = touched_address(detail, i);
      if (!address) continue;
      out.data_address = *address;
      out.is_store = mnemonic.starts_with("st");
    }
    out.is_call = insn.id == ARM64_INS_BL || insn.id == ARM64_INS_BLR;
    out.is_return = insn.id == ARM64_INS_RET;
    const bool is_jump = cs_insn_group(capstone_, &insn, ARM64_GRP_JUMP);
    if ((out.is_call || is_jump) && detail.op_count > 0) {
      const cs_arm64_op& target = detail.operands[detail.op_count - 1];
      if (target.type == ARM64_OP_IMM) out.call_target = static_cast<uint64_t>(target.imm);
    }
    follow(insn, out, result);
  }

  bool read_unknown(std::span<const std::byte> code, Instruction& out) override {
    uint32_t word = 0;
    if (code.size() < sizeof(word)) return false;
    std::memcpy(&word, code.data(), sizeof(word));
    const bool is_permanently_undefined = (word >> 16) == 0;  // udf, and the zeros of padding
    if (is_permanently_undefined) return false;
    out.size = sizeof(word);
    // Wherever A64 names a register that it may write, the number is in one of these fields.
    flow_.arrive(out.address);
    for (const unsigned shift : {0U, 5U, 10U, 16U}) flow_.registers.forget(word >> shift & 31U);
    return true;
  }

 private:
  // Value of the destination register of adr, adrp, add and mov.
  std::optional<uint64_t> formed_address(const cs_insn& insn) const {
    const cs_arm64& detail = insn.detail->arm64;
    const cs_arm64_op* operands = detail.operands;
    // A 32-bit destination keeps half of an address.
    if (detail.op_count == 0 || operands[0].type != ARM64_OP_REG ||
        (operands[0].reg >= ARM64_REG_W0 && operands[0].reg <= ARM64_REG_W30)) {
      return std::nullopt;
    }
    if (insn.id == ARM64_INS_ADR || insn.id == ARM64_INS_ADRP) {
      return static_cast<uint64_t>(operands[1].imm);
    }
    if (insn.id == ARM64_INS_MOV && detail.op_count == 2 && operands[1].type == ARM64_OP_REG) {
      return flow_.registers.value(aarch64_register_number(operands[1].reg));
    }
    if (insn.id == ARM64_INS_ADD && detail.op_count == 3 && operands[1].type == ARM64_OP_REG &&
        operands[2].type == ARM64_OP_IMM) {
      const auto base = flow_.registers.value(aarch64_register_number(operands[1].reg));
      const auto added = static_cast<uint64_t>(operands[2].imm) << (operands[2].shift.value & 63U);
      if (base) return *base + added;
    }
    return std::nullopt;
  }

  std::optional<uint64_t> touched_address(const cs_arm64& detail, uint8_t index) const {
    const cs_arm64_op& operand = detail.operands[index];
    if (operand.type != ARM64_OP_MEM || operand.mem.index != ARM64_REG_INVALID) {
      return std::nullopt;
    }
    const auto base = flow_.registers.value(aarch64_register_number(operand.mem.base));
    if (!base) return std::nullopt;
    return *base + static_cast<uint64_t>(static_cast<int64_t>(operand.mem.disp));
  }

  void follow(const cs_insn& insn, const Instruction& out, std::optional<uint64_t> result) {
    if (out.is_call) {
      flow_.registers.forget_mask(kAarch64CallClobbers);
      return;
    }
    if (out.call_target != 0) flow_.jump(insn.address, out.call_target);
    const bool is_unconditional =
        insn.id == ARM64_INS_BR || (insn.id == ARM64_INS_B && insn.detail->arm64.cc == 0);
    if (out.is_return || is_unconditional) {
      flow_.end();
      return;
    }
    if (insn.id == ARM64_INS_CMP || insn.id == ARM64_INS_CMN || insn.id == ARM64_INS_TST) return;
    forget_written(capstone_, insn, aarch64_register_number, flow_.registers);
    if (result) {
      flow_.registers.set(aarch64_register_number(insn.detail->arm64.operands[0].reg), *result);
    }
  }

  csh capstone_;
  RegisterFlow flow_;
};

}  // namespace

std::unique_ptr<InstructionReader> make_aarch64_reader(size_t capstone) {
  return std::make_unique<Aarch64Reader>(capstone);
}

}  // namespace heapsnap
