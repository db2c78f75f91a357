#include "elf/displaced_code.h"

#include <capstone/capstone.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "elf/capstone_decoder.h"
#include "elf/disassembler.h"

namespace heapsnap {

namespace {

constexpr std::array<uint8_t, 4> kEndBranch{0xf3, 0x0f, 0x1e, 0xfa};
constexpr uint8_t kJump = 0xe9;
constexpr uint8_t kConditionalPrefix = 0x0f;
constexpr uint8_t kConditionalNear = 0x80;   // 0f 80+cc rel32
constexpr uint8_t kConditionalShort = 0x70;  // 70+cc rel8

bool is_in_group(const CapstoneDecoder& decoder, const cs_insn& insn, unsigned group) {
  return cs_insn_group(decoder.handle(), &insn, group);
}

// The distance as the four bytes of an instruction that ends at `from`.
std::optional<int32_t> distance(uint64_t from, uint64_t to) {
  const auto difference = static_cast<int64_t>(to - from);
  const auto narrow = static_cast<int32_t>(difference);
  if (narrow != difference) return std::nullopt;
  return narrow;
}

void append(std::vector<std::byte>& bytes, uint8_t value) {
  bytes.push_back(std::byte{value});
}

bool append_distance(std::vector<std::byte>& bytes, uint64_t begin, uint64_t to) {
  const auto offset = distance(begin + bytes.size() + sizeof(int32_t), to);
  if (!offset) return false;
  const auto raw = std::as_bytes(std::span(&*offset, 1));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
  return true;
}

// Moves one instruction to the end of `copy`, which begins at `begin`.
bool move_instruction(const CapstoneDecoder& decoder, const cs_insn& insn, uint64_t begin,
                      std::vector<std::byte>& copy) {
  const cs_x86& x86 = insn.detail->x86;
  const bool is_relative = is_in_group(decoder, insn, CS_GRP_BRANCH_RELATIVE);
  if (is_in_group(decoder, insn, CS_GRP_CALL) || is_in_group(decoder, insn, CS_GRP_RET) ||
      is_in_group(decoder, insn, CS_GRP_INT)) {
    return false;
  }
  if (is_relative || is_in_group(decoder, insn, CS_GRP_JUMP)) {
    if (x86.op_count != 1 || x86.operands[0].type != X86_OP_IMM) return false;
    const auto target = static_cast<uint64_t>(x86.operands[0].imm);
    const uint8_t opcode = insn.bytes[0];
    if (opcode == kJump || opcode == 0xeb) {
      append(copy, kJump);
    } else if ((opcode & 0xf0) == kConditionalShort) {
      append(copy, kConditionalPrefix);
      append(copy, kConditionalNear | (opcode & 0x0f));
    } else if (opcode == kConditionalPrefix && (insn.bytes[1] & 0xf0) == kConditionalNear) {
      append(copy, kConditionalPrefix);
      append(copy, insn.bytes[1]);
    } else {
      return false;  // loop, jrcxz, and jumps behind a prefix
    }
    return append_distance(copy, begin, target);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(insn.bytes);
  const uint64_t copy_end = begin + copy.size() + insn.size;
  copy.insert(copy.end(), bytes, bytes + insn.size);
  for (uint8_t i = 0; i < x86.op_count; ++i) {
    const cs_x86_op& operand = x86.operands[i];
    if (operand.type != X86_OP_MEM || operand.mem.base != X86_REG_RIP) continue;
    const uint64_t target = insn.address + insn.size + static_cast<uint64_t>(operand.mem.disp);
    const auto offset = distance(copy_end, target);
    const size_t at = x86.encoding.disp_offset;
    if (!offset || at == 0 || at + sizeof *offset > insn.size) return false;
    std::memcpy(copy.data() + copy.size() - insn.size + at, &*offset, sizeof *offset);
    break;
  }
  return true;
}

bool begins_with_end_branch(std::span<const std::byte> code) {
  return code.size() >= kEndBranch.size() &&
         std::equal(kEndBranch.begin(), kEndBranch.end(), code.begin(),
                    [](uint8_t a, std::byte b) { return std::byte{a} == b; });
}

struct KeptInstruction {
  size_t size = 0;
  std::vector<std::byte> undo;
};

// A function's caller expects nothing of these, and a function nothing of its caller: an
// instruction that writes no others can be executed twice.
bool is_scratch(const CapstoneDecoder& decoder, unsigned id) {
  if (id == X86_REG_EFLAGS) return true;
  const char* const name = cs_reg_name(decoder.handle(), id);
  constexpr std::array<std::string_view, 4> kScratch{"rax", "eax", "r10", "r11"};
  return name != nullptr && std::find(kScratch.begin(), kScratch.end(), name) != kScratch.end();
}

bool writes_scratch_only(const CapstoneDecoder& decoder, const cs_insn& insn) {
  const cs_x86& x86 = insn.detail->x86;
  for (uint8_t i = 0; i < x86.op_count; ++i) {
    const cs_x86_op& operand = x86.operands[i];
    if (operand.type == X86_OP_MEM && (operand.access & CS_AC_WRITE) != 0) return false;
  }
  cs_regs read{};
  cs_regs written{};
  uint8_t read_count = 0;
  uint8_t written_count = 0;
  if (cs_regs_access(decoder.handle(), &insn, read, &read_count, written, &written_count) !=
      CS_ERR_OK) {
    return false;
  }
  return std::all_of(written, written + written_count,
                     [&decoder](unsigned id) { return is_scratch(decoder, id); });
}

// The first instruction of `code`, if what it does can be undone.
std::optional<KeptInstruction> kept_instruction(std::span<const std::byte> code, uint64_t entry) {
  CapstoneDecoder decoder(Machine::kX86_64);
  const cs_insn* const insn = decoder.decode(code, entry);
  if (insn == nullptr) return std::nullopt;
  const cs_x86& x86 = insn->detail->x86;
  if (insn->id == X86_INS_PUSH && x86.op_count == 1 && x86.operands[0].type == X86_OP_REG &&
      x86.operands[0].size == 8) {
    // lea 8(%rsp),%rsp
    return KeptInstruction{
        insn->size,
        {std::byte{0x48}, std::byte{0x8d}, std::byte{0x64}, std::byte{0x24}, std::byte{0x08}}};
  }
  // Executed twice, others may give something else: add to %rax, for one.
  constexpr std::array<unsigned, 5> kIdempotent{X86_INS_TEST, X86_INS_CMP, X86_INS_MOV, X86_INS_LEA,
                                                X86_INS_NOP};
  if (std::find(kIdempotent.begin(), kIdempotent.end(), insn->id) == kIdempotent.end() ||
      !writes_scratch_only(decoder, *insn)) {
    return std::nullopt;
  }
  return KeptInstruction{insn->size, {}};
}

// Displaces what comes behind the first `kept` bytes.
std::optional<DisplacedCode> displace_behind(std::span<const std::byte> code, uint64_t entry,
                                             size_t kept, uint64_t copy_at) {
  DisplacedCode result;
  CapstoneDecoder decoder(Machine::kX86_64);
  bool falls_through = true;
  size_t at = 0;
  while (at < kept + kJumpSize) {
    const cs_insn* const insn = decoder.decode(code.subspan(at), entry + at);
    // A function that ends before there is room for the jump.
    if (insn == nullptr || !falls_through) return std::nullopt;
    if (!move_instruction(decoder, *insn, copy_at, result.copy)) return std::nullopt;
    falls_through = insn->bytes[0] != kJump && insn->bytes[0] != 0xeb;
    at += insn->size;
  }
  result.displaced = {Address(entry + kept), Address(entry + at)};
  result.guarded = result.displaced;
  if (falls_through) {
    append(result.copy, kJump);
    if (!append_distance(result.copy, copy_at, entry + at)) return std::nullopt;
  }
  return result;
}

}  // namespace

std::optional<DisplacedCode> displace_code(std::span<const std::byte> code, uint64_t entry,
                                           uint64_t copy_at) {
  const size_t marker = begins_with_end_branch(code) ? kEndBranch.size() : 0;
  if (marker == 0) {
    if (const auto kept = kept_instruction(code, entry)) {
      if (auto result = displace_behind(code, entry, kept->size, copy_at)) {
        result->guarded.begin = Address(entry);
        result->undo = kept->undo;
        if (!jumps_into(code, entry, result->guarded)) return result;
      }
    }
  }
  auto result = displace_behind(code, entry, marker, copy_at);
  if (result && jumps_into(code, entry, result->guarded)) return std::nullopt;
  return result;
}

bool jumps_into(std::span<const std::byte> code, uint64_t address, const AddressRange& range) {
  const auto instructions = disassemble(Machine::kX86_64, code, address);
  return std::any_of(instructions.begin(), instructions.end(), [&](const Instruction& each) {
    const Address target(each.call_target);
    return range.contains(target) && target != range.begin;
  });
}

std::optional<std::vector<std::byte>> encode_jump(uint64_t from, uint64_t to) {
  std::vector<std::byte> jump;
  append(jump, kJump);
  if (!append_distance(jump, from, to)) return std::nullopt;
  return jump;
}

}  // namespace heapsnap
