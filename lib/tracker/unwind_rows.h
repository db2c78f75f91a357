// Unwind rows: what .eh_frame says about each pc of a module, compiled to 8 bytes a row, sorted by
// address, so that a frame is unwound by one look-up and two loads.
//
// A row holds what a walk along return addresses needs: how the CFA follows from rsp or rbp, and
// where the caller's rbp is. The return address is always at CFA - 8. What does not fit says so
// (kSpecial) and is evaluated from .eh_frame as it stands: a few dozen rows a process, in
// hand-written assembly.
//
//   31 .. 12          11 .. 4                    3      2..0
//   CFA offset        rbp saved at CFA - 8 * n   spare  kind
//   (signed)          (0: still the caller's)
#pragma once

#include <cstdint>

#include "tracker/cfi.h"

namespace heapsnap::tracker {

enum class RuleKind : uint8_t {
  kNoInfo = 0,      // no CFI covers the address
  kFromRsp = 1,     // CFA = rsp + offset, with offset >= 8
  kFromRbp = 2,     // CFA = rbp + offset
  kThroughRbp = 3,  // CFA = *(rbp + offset), caller's rbp = *rbp (functions that realign the stack)
  kEnd = 4,         // the return address is undefined: the thread's first function
  kSignal = 5,      // the frame that a signal handler returns to
  kPlt = 6,         // CFA = rsp + 8, and 8 more from byte `offset` of each 16-byte entry on
  kSpecial = 7,     // does not fit
};

struct UnwindRule {
  uint32_t bits;

  RuleKind kind() const { return static_cast<RuleKind>(bits & 7); }
  int64_t cfa_offset() const { return static_cast<int32_t>(bits) >> 12; }
  uint64_t rbp_distance() const { return (bits >> 4) & 0xff; }  // in words below the CFA
  bool uses_rbp() const { return kind() == RuleKind::kFromRbp || kind() == RuleKind::kThroughRbp; }
  bool operator==(const UnwindRule&) const = default;
};
inline constexpr int64_t kCfaOffsetLimit = 1 << 19;
constexpr UnwindRule make_rule(RuleKind kind, int64_t cfa_offset = 0, uint64_t rbp_distance = 0) {
  return {static_cast<uint32_t>(kind) | static_cast<uint32_t>(rbp_distance << 4) |
          static_cast<uint32_t>(static_cast<uint64_t>(cfa_offset) << 12)};
}

// What a row of .eh_frame comes to.
UnwindRule rule_of(const CfiRow& row, bool is_signal_frame);

struct UnwindRow {
  uint32_t offset;  // of the first address, from the module's begin
  UnwindRule rule;
};

// The rows of one module. Covers [0, size) of it; between functions kNoInfo.
class UnwindRows {
 public:
  // Compiles; false when memory is refused or there is no CFI, and then nothing is held.
  bool compile(const CfiIndex& index, uint64_t module_begin, uint64_t module_end);
  void release();
  UnwindRule find(uint32_t offset) const;

  uint64_t count() const { return count_; }
  const UnwindRow& row(uint64_t i) const { return rows_[i]; }

 private:
  bool append(uint64_t address, UnwindRule rule);
  bool build_starts(uint64_t size);
  static void emit(void* self, uint64_t pc, const CfiRow& row);

  UnwindRow* rows_ = nullptr;
  uint64_t count_ = 0;
  uint64_t capacity_ = 0;
  uint32_t* starts_ =
      nullptr;  // [offset >> kStartShift]: the row in force at the first byte of the span
  uint64_t start_count_ = 0;
  // While compiling:
  uint64_t begin_ = 0;
  uint64_t function_end_ = 0;
  bool is_signal_frame_ = false;
  bool failed_ = false;
};

}  // namespace heapsnap::tracker
