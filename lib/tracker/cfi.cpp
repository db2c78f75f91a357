#include "tracker/cfi.h"

namespace heapsnap::tracker {

namespace {

// DW_EH_PE_...
constexpr uint8_t kEncodingOmit = 0xff;
constexpr uint8_t kEncodingFormat = 0x0f;
constexpr uint8_t kEncodingApplication = 0x70;
constexpr uint8_t kEncodingIndirect = 0x80;
constexpr uint8_t kPcRelative = 0x10;
constexpr uint8_t kDataRelative = 0x30;
constexpr uint8_t kSigned4DataRelative = 0x3b;

constexpr unsigned kRememberedStates = 8;

struct CfiMachine {
  CfiRow row;
  CfiRow initial;
  CfiRow remembered[kRememberedStates];
  unsigned depth = 0;
};

void set_rule(CfiRow& row, uint64_t reg, RegisterRule rule, int64_t value) {
  if (reg >= kRegisterCount) return;  // vector registers: nobody's caller needs them here
  row.rule[reg] = rule;
  row.value[reg] = value;
}

// Where rows go while a program runs: to `emit`, or only the last before `stop_at`.
struct RowSink {
  EmitRow emit;
  void* context;
  uint64_t stop_at;
};

bool run_program(CfiMachine& machine, const CfiFunction& function, CfiBytes code, uint64_t& pc,
                 const RowSink* sink) {
  CfiRow& row = machine.row;
  const int64_t data = function.data_factor;
  while (code.at < code.end && code.ok) {
    const auto op = code.take<uint8_t>();
    uint64_t advance = 0;
    switch (op >> 6) {
      case 1: advance = (op & 0x3f) * function.code_factor; break;
      case 2:
        set_rule(row, op & 0x3f, RegisterRule::kOffset, static_cast<int64_t>(code.uleb()) * data);
        continue;
      case 3:
        if (const unsigned reg = op & 0x3f; reg < kRegisterCount) {
          row.rule[reg] = machine.initial.rule[reg];
          row.value[reg] = machine.initial.value[reg];
        }
        continue;
      default: break;
    }
    if (op >> 6 == 0) {
      switch (op) {
        case 0x00: continue;  // nop
        case 0x01: {          // set_loc
          const uint64_t to = code.take<uint64_t>();
          if (to < pc) return false;
          advance = to - pc;
          break;
        }
        case 0x02: advance = code.take<uint8_t>() * function.code_factor; break;  // advance_loc1
        case 0x03: advance = code.take<uint16_t>() * function.code_factor; break;
        case 0x04: advance = code.take<uint32_t>() * function.code_factor; break;
        case 0x05: {  // offset_extended
          const uint64_t reg = code.uleb();
          set_rule(row, reg, RegisterRule::kOffset, static_cast<int64_t>(code.uleb()) * data);
          continue;
        }
        case 0x06: {  // restore_extended
          const uint64_t reg = code.uleb();
          if (reg < kRegisterCount) {
            row.rule[reg] = machine.initial.rule[reg];
            row.value[reg] = machine.initial.value[reg];
          }
          continue;
        }
        case 0x07: set_rule(row, code.uleb(), RegisterRule::kUndefined, 0); continue;
        case 0x08: set_rule(row, code.uleb(), RegisterRule::kSame, 0); continue;
        case 0x09: {
          const uint64_t reg = code.uleb();
          set_rule(row, reg, RegisterRule::kRegister, static_cast<int64_t>(code.uleb()));
          continue;
        }
        case 0x0a:  // remember_state
          if (machine.depth == kRememberedStates) return false;
          machine.remembered[machine.depth++] = row;
          continue;
        case 0x0b:  // restore_state
          if (machine.depth == 0) return false;
          row = machine.remembered[--machine.depth];
          continue;
        case 0x0c:  // def_cfa
          row.cfa_register = static_cast<uint8_t>(code.uleb());
          row.cfa_offset = static_cast<int64_t>(code.uleb());
          row.cfa_is_expression = false;
          continue;
        case 0x0d:  // def_cfa_register
          row.cfa_register = static_cast<uint8_t>(code.uleb());
          row.cfa_is_expression = false;
          continue;
        case 0x0e: row.cfa_offset = static_cast<int64_t>(code.uleb()); continue;
        case 0x0f:  // def_cfa_expression
          row.cfa_is_expression = true;
          row.cfa_expression = code.at;
          code.block();
          continue;
        case 0x10:    // expression
        case 0x16: {  // val_expression
          const uint64_t reg = code.uleb();
          set_rule(row, reg,
                   op == 0x10 ? RegisterRule::kExpression : RegisterRule::kValueExpression,
                   reinterpret_cast<int64_t>(code.at));
          code.block();
          continue;
        }
        case 0x11: {  // offset_extended_sf
          const uint64_t reg = code.uleb();
          set_rule(row, reg, RegisterRule::kOffset, code.sleb() * data);
          continue;
        }
        case 0x12:  // def_cfa_sf
          row.cfa_register = static_cast<uint8_t>(code.uleb());
          row.cfa_offset = code.sleb() * data;
          row.cfa_is_expression = false;
          continue;
        case 0x13: row.cfa_offset = code.sleb() * data; continue;
        case 0x14: {  // val_offset
          const uint64_t reg = code.uleb();
          set_rule(row, reg, RegisterRule::kValueOffset, static_cast<int64_t>(code.uleb()) * data);
          continue;
        }
        case 0x15: {  // val_offset_sf
          const uint64_t reg = code.uleb();
          set_rule(row, reg, RegisterRule::kValueOffset, code.sleb() * data);
          continue;
        }
        case 0x2e: code.uleb(); continue;  // GNU_args_size
        case 0x2f: {                       // GNU_negative_offset_extended
          const uint64_t reg = code.uleb();
          set_rule(row, reg, RegisterRule::kOffset, -static_cast<int64_t>(code.uleb()) * data);
          continue;
        }
        default: return false;
      }
    }
    if (sink == nullptr) return false;  // a CIE does not advance
    if (advance != 0) {
      if (sink->emit != nullptr) sink->emit(sink->context, pc, row);
      if (pc + advance > sink->stop_at) return code.ok;
      pc += advance;
    }
  }
  if (sink != nullptr && sink->emit != nullptr) sink->emit(sink->context, pc, row);
  return code.ok;
}

bool run(const CfiFunction& function, const RowSink& sink, CfiMachine& machine) {
  machine.row = {};
  uint64_t pc = function.begin;
  if (!run_program(machine, function, function.cie_instructions, pc, nullptr)) return false;
  machine.initial = machine.row;
  return run_program(machine, function, function.instructions, pc, &sink);
}

}  // namespace

uint64_t CfiBytes::uleb() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = take<uint8_t>();
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  ok = false;
  return 0;
}

int64_t CfiBytes::sleb() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64;) {
    const auto byte = take<uint8_t>();
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    shift += 7;
    if ((byte & 0x80) == 0) {
      if (shift < 64 && (byte & 0x40) != 0) value |= ~0ULL << shift;
      return static_cast<int64_t>(value);
    }
  }
  ok = false;
  return 0;
}

uint64_t CfiBytes::pointer(uint8_t encoding, uint64_t data_base) {
  if (encoding == kEncodingOmit) return 0;
  const auto place = reinterpret_cast<uint64_t>(at);
  uint64_t value = 0;
  switch (encoding & kEncodingFormat) {
    case 0x00:
    case 0x04:
    case 0x0c: value = take<uint64_t>(); break;
    case 0x01: value = uleb(); break;
    case 0x02: value = take<uint16_t>(); break;
    case 0x03: value = take<uint32_t>(); break;
    case 0x09: value = static_cast<uint64_t>(sleb()); break;
    case 0x0a: value = static_cast<uint64_t>(int64_t{take<int16_t>()}); break;
    case 0x0b: value = static_cast<uint64_t>(int64_t{take<int32_t>()}); break;
    default: ok = false; return 0;
  }
  switch (encoding & kEncodingApplication) {
    case 0: break;
    case kPcRelative: value += place; break;
    case kDataRelative: value += data_base; break;
    default: ok = false; return 0;
  }
  return value;
}

CfiBytes CfiBytes::block() {
  const uint64_t size = uleb();
  if (!ok || size > static_cast<uint64_t>(end - at)) {
    ok = false;
    at = end;
    return {end, end, false};
  }
  CfiBytes inner{at, at + size};
  at += size;
  return inner;
}

bool parse_fde(const uint8_t* fde, uint64_t module_begin, uint64_t module_end, CfiFunction& out) {
  const auto begin = reinterpret_cast<uint64_t>(fde);
  if (begin < module_begin || begin >= module_end) return false;
  CfiBytes entry{fde, reinterpret_cast<const uint8_t*>(module_end)};
  const uint64_t length = entry.take<uint32_t>();
  if (!entry.ok || length == 0 || length >= 0xfffffff0 ||
      length > static_cast<uint64_t>(entry.end - entry.at)) {
    return false;
  }
  entry.end = entry.at + length;
  const auto cie_place = reinterpret_cast<uint64_t>(entry.at);
  const auto cie_offset = entry.take<uint32_t>();
  if (cie_offset == 0 || cie_place - cie_offset < module_begin || cie_offset > cie_place)
    return false;

  CfiBytes cie{reinterpret_cast<const uint8_t*>(cie_place - cie_offset),
               reinterpret_cast<const uint8_t*>(module_end)};
  const uint64_t cie_length = cie.take<uint32_t>();
  if (!cie.ok || cie_length > static_cast<uint64_t>(cie.end - cie.at)) return false;
  cie.end = cie.at + cie_length;
  if (cie.take<uint32_t>() != 0) return false;
  const auto version = cie.take<uint8_t>();
  if (version != 1 && version != 3) return false;
  const char* augmentation = reinterpret_cast<const char*>(cie.at);
  while (cie.take<uint8_t>() != 0) {
  }
  out.code_factor = cie.uleb();
  out.data_factor = cie.sleb();
  const uint64_t return_register = version == 1 ? cie.take<uint8_t>() : cie.uleb();
  if (!cie.ok || return_register != kReturnAddress) return false;
  uint8_t pointer_encoding = 0;
  out.is_signal_frame = false;
  const bool augmented = *augmentation == 'z';
  if (augmented) {
    CfiBytes data = cie.block();
    for (const char* letter = augmentation + 1; *letter != 0; ++letter) {
      if (*letter == 'R') {
        pointer_encoding = data.take<uint8_t>();
      } else if (*letter == 'S') {
        out.is_signal_frame = true;
      } else if (*letter == 'L') {
        data.take<uint8_t>();
      } else if (*letter == 'P') {
        const auto encoding = data.take<uint8_t>();
        data.pointer(encoding & ~kEncodingIndirect);
      } else {
        break;  // the rest is skipped by the length
      }
    }
    if (!data.ok) return false;
  } else if (*augmentation != 0) {
    return false;
  }
  out.cie_instructions = cie;

  out.begin = entry.pointer(pointer_encoding);
  out.end = out.begin + entry.pointer(pointer_encoding & kEncodingFormat);
  if (augmented) entry.block();
  out.instructions = entry;
  return entry.ok && cie.ok && out.begin < out.end;
}

bool parse_eh_frame_hdr(uint64_t header, uint64_t module_end, CfiIndex& out) {
  CfiBytes bytes{reinterpret_cast<const uint8_t*>(header),
                 reinterpret_cast<const uint8_t*>(module_end)};
  const auto version = bytes.take<uint8_t>();
  const auto frame_encoding = bytes.take<uint8_t>();
  const auto count_encoding = bytes.take<uint8_t>();
  const auto table_encoding = bytes.take<uint8_t>();
  bytes.pointer(frame_encoding, header);
  const uint64_t count = bytes.pointer(count_encoding, header);
  if (!bytes.ok || version != 1 || table_encoding != kSigned4DataRelative ||
      count > static_cast<uint64_t>(bytes.end - bytes.at) / 8) {
    return false;
  }
  out = {bytes.at, header, count};
  return count != 0;
}

uint64_t cfi_index_function(const CfiIndex& index, uint64_t i) {
  int32_t offset;
  __builtin_memcpy(&offset, index.entries + 8 * i, 4);
  return index.base + static_cast<uint64_t>(int64_t{offset});
}

const uint8_t* cfi_index_fde(const CfiIndex& index, uint64_t i) {
  int32_t offset;
  __builtin_memcpy(&offset, index.entries + 8 * i + 4, 4);
  return reinterpret_cast<const uint8_t*>(index.base + static_cast<uint64_t>(int64_t{offset}));
}

uint64_t cfi_index_find(const CfiIndex& index, uint64_t pc) {
  uint64_t low = 0;
  uint64_t high = index.count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (cfi_index_function(index, middle) <= pc) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? index.count : low - 1;
}

bool run_cfi(const CfiFunction& function, EmitRow emit, void* context) {
  CfiMachine machine;
  return run(function, {emit, context, ~0ULL}, machine);
}

bool cfi_row_at(const CfiFunction& function, uint64_t pc, CfiRow& out) {
  CfiMachine machine;
  if (!run(function, {nullptr, nullptr, pc}, machine)) return false;
  out = machine.row;
  return true;
}

}  // namespace heapsnap::tracker
