#include <capstone/capstone.h>

#include <optional>

#include "elf/instruction_reader.h"
#include "elf/known_registers.h"
#include "elf/written_registers.h"

// Capstone 4.0.2, as tried: it calls the memory operand of movups, movq and lock cmpxchg read-only.

namespace heapsnap {

namespace {

// Number of a general register by any of its names; KnownRegisters::kCount for others.
unsigned x86_register_number(unsigned name) {
  switch (name) {
    case X86_REG_EAX:
    case X86_REG_AX:
    case X86_REG_AL:
    case X86_REG_AH: return 0;
    case X86_REG_ECX:
    case X86_REG_CX:
    case X86_REG_CL:
    case X86_REG_CH: return 1;
    case X86_REG_EDX:
    case X86_REG_DX:
    case X86_REG_DL:
    case X86_REG_DH: return 2;
    case X86_REG_EBX:
    case X86_REG_BX:
    case X86_REG_BL:
    case X86_REG_BH: return 3;
    case X86_REG_ESP:
    case X86_REG_SP: return 4;
    case X86_REG_EBP:
    case X86_REG_BP: return 5;
    case X86_REG_ESI:
    case X86_REG_SI: return 6;
    case X86_REG_EDI:
    case X86_REG_DI: return 7;
    default: return KnownRegisters::kCount;
  }
}
constexpr unsigned kEbx = 3;
constexpr uint32_t kX86CallClobbers = 0b111;  // eax, ecx, edx

bool is_vector_register(const cs_x86_op& operand) {
  return operand.type == X86_OP_REG &&
         ((operand.reg >= X86_REG_MM0 && operand.reg <= X86_REG_MM7) ||
          (operand.reg >= X86_REG_XMM0 && operand.reg <= X86_REG_ZMM31));
}

bool is_x86_store(const cs_insn& insn, const cs_x86& detail) {
  if ((detail.operands[0].access & CS_AC_WRITE) != 0) return true;
  switch (insn.id) {
    case X86_INS_CMPXCHG:
    case X86_INS_CMPXCHG8B:
    case X86_INS_CMPXCHG16B:
    case X86_INS_MOVNTI: return true;
    default:
      // No instruction has a first operand in memory that it reads and a vector register second.
      return detail.op_count == 2 && is_vector_register(detail.operands[1]);
  }
}

// lea 0(%esi), %esi and lea 0(%esi, %eiz), %esi: padding.
bool is_padding(const cs_insn& insn) {
  const cs_x86& detail = insn.detail->x86;
  if (insn.id != X86_INS_LEA || detail.op_count != 2) return false;
  const x86_op_mem& source = detail.operands[1].mem;
  return source.base == detail.operands[0].reg && source.disp == 0 &&
         (source.index == X86_REG_INVALID || source.index == X86_REG_EIZ);
}

class X86Reader final : public InstructionReader {
 public:
  X86Reader(csh capstone, Machine machine, uint64_t got_base)
      : capstone_(capstone), is_64_bit_(machine == Machine::kX86_64), got_base_(got_base) {
    if (tracks_got()) {
      flow_.registers.set(kEbx, got_base_);
      flow_.fallback = flow_.registers;
    }
  }

  void read(const cs_insn& insn, Instruction& out) override {
    const cs_x86& detail = insn.detail->x86;
    if (tracks_got()) flow_.arrive(insn.address);
    if (is_padding(insn)) return;
    for (uint8_t i = 0; i < detail.op_count; ++i) {
      const cs_x86_op& operand = detail.operands[i];
      if (operand.type != X86_OP_MEM) continue;
      const auto address = data_address(insn, operand.mem);
      if (!address) continue;
      out.data_address = *address;
      out.is_address_load = insn.id == X86_INS_LEA;
      out.is_store = i == 0 && !out.is_address_load && is_x86_store(insn, detail);
    }
    out.is_call = insn.id == X86_INS_CALL;
    out.is_return = insn.id == X86_INS_RET;
    const bool is_jump = cs_insn_group(capstone_, &insn, X86_GRP_JUMP);
    if ((out.is_call || is_jump) && detail.op_count == 1 && detail.operands[0].type == X86_OP_IMM) {
      out.call_target = truncated(static_cast<uint64_t>(detail.operands[0].imm));
    }
    if (tracks_got()) follow(insn, out, is_jump);
  }

  // Without the length of what is unknown there is no next instruction.
  bool read_unknown(std::span<const std::byte>, Instruction&) override { return false; }

 private:
  bool tracks_got() const { return !is_64_bit_ && got_base_ != 0; }
  uint64_t truncated(uint64_t value) const {
    return is_64_bit_ ? value : static_cast<uint32_t>(value);
  }

  std::optional<uint64_t> data_address(const cs_insn& insn, const x86_op_mem& operand) const {
    if (operand.segment == X86_REG_FS || operand.segment == X86_REG_GS ||
        operand.index != X86_REG_INVALID) {
      return std::nullopt;
    }
    const auto displacement = static_cast<uint64_t>(operand.disp);
    if (is_64_bit_) {
      if (operand.base != X86_REG_RIP) return std::nullopt;
      return insn.address + insn.size + displacement;
    }
    if (operand.base == X86_REG_INVALID) return truncated(displacement);
    const auto base = flow_.registers.value(x86_register_number(operand.base));
    if (!base) return std::nullopt;
    return truncated(*base + displacement);
  }

  // Keeps track of the registers that hold the address of the GOT.
  void follow(const cs_insn& insn, const Instruction& out, bool is_jump) {
    const cs_x86& detail = insn.detail->x86;
    if (out.is_call) {
      flow_.registers.forget_mask(kX86CallClobbers);
      last_return_address_ = insn.address + insn.size;
      return;
    }
    if (is_jump && out.call_target != 0) flow_.jump(insn.address, out.call_target);
    if (out.is_return || insn.id == X86_INS_JMP) {
      flow_.end();
      return;
    }
    std::optional<uint64_t> result;
    if (detail.op_count == 2 && detail.operands[0].type == X86_OP_REG) {
      const cs_x86_op& source = detail.operands[1];
      if (insn.id == X86_INS_MOV && source.type == X86_OP_REG) {
        result = flow_.registers.value(x86_register_number(source.reg));
      }
      // call __x86.get_pc_thunk.bx; add $_GLOBAL_OFFSET_TABLE_, %ebx
      if (insn.id == X86_INS_ADD && source.type == X86_OP_IMM &&
          truncated(last_return_address_ + static_cast<uint64_t>(source.imm)) == got_base_) {
        result = got_base_;
      }
    }
    forget_written(capstone_, insn, x86_register_number, flow_.registers);
    if (!result) return;
    const unsigned destination = x86_register_number(detail.operands[0].reg);
    flow_.registers.set(destination, *result);
    if (insn.id == X86_INS_ADD) {
      flow_.fallback = {};
      flow_.fallback.set(destination, *result);
    }
  }

  csh capstone_;
  bool is_64_bit_;
  uint64_t got_base_;
  uint64_t last_return_address_ = 0;
  RegisterFlow flow_;
};

}  // namespace

std::unique_ptr<InstructionReader> make_x86_reader(size_t capstone, Machine machine,
                                                   uint64_t got_base) {
  return std::make_unique<X86Reader>(capstone, machine, got_base);
}

}  // namespace heapsnap
