#include "tracker/unwind_rows.h"

#include "tracker/table_space.h"

namespace heapsnap::tracker {

namespace {

constexpr unsigned kStartShift = 8;
// Linkers align functions to 16; what lies in such a gap is padding and never returned into.
constexpr uint64_t kPadding = 16;

constexpr uint8_t kOpDeref = 0x06;
constexpr uint8_t kOpBreg0 = 0x70;

// "register + offset", and nothing else, or with a dereference behind it.
struct SimpleExpression {
  unsigned reg;
  int64_t offset;
  bool dereferenced;
};
bool parse_simple(const uint8_t* expression, SimpleExpression& out) {
  CfiBytes bytes{expression, expression + 16};
  CfiBytes code = bytes.block();
  const auto op = code.take<uint8_t>();
  if (op < kOpBreg0 || op > kOpBreg0 + kReturnAddress) return false;
  out.reg = op - kOpBreg0;
  out.offset = code.sleb();
  out.dereferenced = false;
  if (code.at < code.end) {
    if (code.take<uint8_t>() != kOpDeref || code.at < code.end) return false;
    out.dereferenced = true;
  }
  return code.ok;
}

// The one expression that linkers write for .plt: rsp + 8 + ((rip & 15) >= n) * 8.
bool parse_plt(const uint8_t* expression, int64_t& n) {
  // DW_OP_breg7 8, breg16 0, lit15, and, litN, ge, lit3, shl, plus
  if (expression[0] != 11) return false;
  const uint8_t* code = expression + 1;
  constexpr uint8_t kBefore[] = {kOpBreg0 + 7, 8, kOpBreg0 + 16, 0, 0x3f, 0x1a};
  constexpr uint8_t kAfter[] = {0x2a, 0x33, 0x24, 0x22};
  if (__builtin_memcmp(code, kBefore, 6) != 0 || __builtin_memcmp(code + 7, kAfter, 4) != 0)
    return false;
  if (code[6] < 0x30 || code[6] > 0x3f) return false;
  n = code[6] - 0x30;
  return true;
}

// Words below the CFA at which the caller's rbp lies; false when the row has it otherwise.
bool rbp_distance(const CfiRow& row, uint64_t& distance) {
  switch (row.rule[kRegisterRbp]) {
    case RegisterRule::kSame:
    case RegisterRule::kUndefined: distance = 0; return true;
    case RegisterRule::kOffset: {
      const int64_t below = -row.value[kRegisterRbp];
      if (below <= 0 || below % 8 != 0 || below / 8 > 0xff) return false;
      distance = static_cast<uint64_t>(below / 8);
      return true;
    }
    default: return false;
  }
}

}  // namespace

UnwindRule rule_of(const CfiRow& row, bool is_signal_frame) {
  if (is_signal_frame) return make_rule(RuleKind::kSignal);
  if (row.rule[kReturnAddress] == RegisterRule::kUndefined) return make_rule(RuleKind::kEnd);
  constexpr UnwindRule kDoesNotFit = make_rule(RuleKind::kSpecial);
  if (row.rule[kReturnAddress] != RegisterRule::kOffset || row.value[kReturnAddress] != -8) {
    return kDoesNotFit;
  }
  if (row.cfa_is_expression) {
    SimpleExpression cfa;
    if (int64_t n = 0; parse_plt(row.cfa_expression, n)) {
      return row.rule[kRegisterRbp] == RegisterRule::kSame ? make_rule(RuleKind::kPlt, n)
                                                           : kDoesNotFit;
    }
    if (!parse_simple(row.cfa_expression, cfa) || cfa.reg != kRegisterRbp || !cfa.dereferenced ||
        cfa.offset <= -kCfaOffsetLimit || cfa.offset >= kCfaOffsetLimit) {
      return kDoesNotFit;
    }
    SimpleExpression rbp;
    if (row.rule[kRegisterRbp] != RegisterRule::kExpression ||
        !parse_simple(reinterpret_cast<const uint8_t*>(row.value[kRegisterRbp]), rbp) ||
        rbp.reg != kRegisterRbp || rbp.dereferenced || rbp.offset != 0) {
      return kDoesNotFit;
    }
    return make_rule(RuleKind::kThroughRbp, cfa.offset);
  }
  uint64_t distance = 0;
  if (!rbp_distance(row, distance) || row.cfa_offset <= -kCfaOffsetLimit ||
      row.cfa_offset >= kCfaOffsetLimit) {
    return kDoesNotFit;
  }
  if (row.cfa_register == kRegisterRsp) {
    if (row.cfa_offset < 8) return kDoesNotFit;  // no room for the return address
    return make_rule(RuleKind::kFromRsp, row.cfa_offset, distance);
  }
  if (row.cfa_register == kRegisterRbp)
    return make_rule(RuleKind::kFromRbp, row.cfa_offset, distance);
  return kDoesNotFit;
}

bool UnwindRows::append(uint64_t address, UnwindRule rule) {
  const auto offset = static_cast<uint32_t>(address - begin_);
  if (count_ != 0) {
    UnwindRow& last = rows_[count_ - 1];
    if (last.offset == offset) {  // a row of no length
      last.rule = rule;
      if (count_ > 1 && rows_[count_ - 2].rule == rule) --count_;
      return true;
    }
    if (last.rule == rule) return true;
  }
  if (count_ == capacity_) {
    const uint64_t larger = capacity_ * 2;
    auto* rows = static_cast<UnwindRow*>(map_spare_memory(larger * sizeof(UnwindRow)));
    if (rows == nullptr) return false;
    __builtin_memcpy(rows, rows_, count_ * sizeof(UnwindRow));
    unmap_spare_memory(rows_, capacity_ * sizeof(UnwindRow));
    rows_ = rows;
    capacity_ = larger;
  }
  rows_[count_++] = {offset, rule};
  return true;
}

void UnwindRows::emit(void* self, uint64_t pc, const CfiRow& row) {
  auto& rows = *static_cast<UnwindRows*>(self);
  if (pc >= rows.function_end_) return;
  if (!rows.append(pc, rule_of(row, rows.is_signal_frame_))) rows.failed_ = true;
}

bool UnwindRows::compile(const CfiIndex& index, uint64_t module_begin, uint64_t module_end) {
  if (index.count == 0 || module_end - module_begin > 0xffffffff) return false;
  begin_ = module_begin;
  capacity_ = (index.count * 4 + 511) & ~511ULL;
  rows_ = static_cast<UnwindRow*>(map_spare_memory(capacity_ * sizeof(UnwindRow)));
  if (rows_ == nullptr) return false;
  append(module_begin, make_rule(RuleKind::kNoInfo));
  uint64_t covered = module_begin;
  for (uint64_t i = 0; i < index.count && !failed_; ++i) {
    CfiFunction function;
    if (!parse_fde(cfi_index_fde(index, i), module_begin, module_end, function)) continue;
    if (function.begin < covered || function.end > module_end)
      continue;  // overlaps: the first wins
    if (function.begin - covered >= kPadding) append(covered, make_rule(RuleKind::kNoInfo));
    const uint64_t rows_before = count_;
    const UnwindRow last_before = rows_[count_ - 1];
    function_end_ = function.end;
    is_signal_frame_ = function.is_signal_frame;
    if (!run_cfi(function, emit, this)) {
      count_ = rows_before;
      rows_[count_ - 1] = last_before;
      append(function.begin, make_rule(RuleKind::kSpecial));
    }
    covered = function.end;
  }
  if (covered < module_end) append(covered, make_rule(RuleKind::kNoInfo));
  if (failed_ || !build_starts(module_end - module_begin)) {
    release();
    return false;
  }
  return true;
}

bool UnwindRows::build_starts(uint64_t size) {
  start_count_ = (size >> kStartShift) + 2;
  starts_ = static_cast<uint32_t*>(map_spare_memory(start_count_ * sizeof(uint32_t)));
  if (starts_ == nullptr) return false;
  uint64_t row = 0;
  for (uint64_t span = 0; span < start_count_; ++span) {
    while (row + 1 < count_ && rows_[row + 1].offset <= span << kStartShift) ++row;
    starts_[span] = static_cast<uint32_t>(row);
  }
  return true;
}

void UnwindRows::release() {
  if (rows_ != nullptr) unmap_spare_memory(rows_, capacity_ * sizeof(UnwindRow));
  if (starts_ != nullptr) unmap_spare_memory(starts_, start_count_ * sizeof(uint32_t));
  *this = {};
}

UnwindRule UnwindRows::find(uint32_t offset) const {
  const uint64_t span = offset >> kStartShift;
  if (span + 1 >= start_count_) return make_rule(RuleKind::kNoInfo);
  uint32_t low = starts_[span];
  uint32_t high = starts_[span + 1];
  while (low < high) {  // the last row that begins at or before offset
    const uint32_t middle = low + (high - low + 1) / 2;
    if (rows_[middle].offset <= offset) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return rows_[low].rule;
}

}  // namespace heapsnap::tracker
