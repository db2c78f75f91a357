// Call frame information: .eh_frame of a module in memory, read the way a C++ exception would.
//
// A CfiRow says for one pc how to find the caller's registers: the canonical frame address (CFA,
// the caller's stack pointer) and a rule a register. run_cfi gives each row of a function in the
// order of its addresses (from which unwind_rows.h compiles its tables), and cfi_row_at the row of
// one pc (which slow_unwind.h evaluates as it stands).
//
// The bytes are those of the process itself, but a broken compiler is no reason to crash: each read
// is bounded by the module.
#pragma once

#include <cstdint>

#include "tracker/arch_x86_64.h"

namespace heapsnap::tracker {

// A cursor over [at, end). Reads past the end give 0 and clear ok.
struct CfiBytes {
  const uint8_t* at;
  const uint8_t* end;
  bool ok = true;

  template <typename T>
  T take() {
    if (static_cast<uint64_t>(end - at) < sizeof(T)) {
      ok = false;
      at = end;
      return 0;
    }
    T value;
    __builtin_memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  }
  uint64_t uleb();
  int64_t sleb();
  // A pointer in one of the DW_EH_PE_ encodings; `data_base` is what datarel counts from.
  uint64_t pointer(uint8_t encoding, uint64_t data_base = 0);
  CfiBytes block();  // a ULEB length and that many bytes
};

enum class RegisterRule : uint8_t {
  kSame,  // nothing said: the caller's value is the current one
  kUndefined,
  kOffset,       // saved at CFA + value
  kValueOffset,  // is CFA + value
  kRegister,     // is in register `value`
  kExpression,   // saved at the address the expression gives
  kValueExpression
};

struct CfiRow {
  uint8_t cfa_register;
  bool cfa_is_expression;
  int64_t cfa_offset;
  const uint8_t* cfa_expression;  // at its ULEB length
  RegisterRule rule[kRegisterCount];
  int64_t value[kRegisterCount];  // offset, register, or address of the expression (at its length)
};

struct CfiFunction {
  uint64_t begin;
  uint64_t end;
  bool is_signal_frame;
  uint64_t code_factor;
  int64_t data_factor;
  CfiBytes cie_instructions;
  CfiBytes instructions;
};

// `fde` points at its length word, within [module_begin, module_end).
bool parse_fde(const uint8_t* fde, uint64_t module_begin, uint64_t module_end, CfiFunction& out);

// The table of .eh_frame_hdr, sorted by address.
struct CfiIndex {
  const uint8_t* entries = nullptr;  // pairs of int32_t relative to `base`: function, FDE
  uint64_t base = 0;
  uint64_t count = 0;
};
bool parse_eh_frame_hdr(uint64_t header, uint64_t module_end, CfiIndex& out);
uint64_t cfi_index_function(const CfiIndex& index, uint64_t i);
const uint8_t* cfi_index_fde(const CfiIndex& index, uint64_t i);
// Number of the last entry that begins at or before pc; count when there is none.
uint64_t cfi_index_find(const CfiIndex& index, uint64_t pc);

// Calls emit(pc, row) for each row, the first at function.begin; a row holds until the next, the
// last until function.end. False when the instructions are broken or beyond us (rows given so far
// are right).
using EmitRow = void (*)(void* context, uint64_t pc, const CfiRow& row);
bool run_cfi(const CfiFunction& function, EmitRow emit, void* context);

// The row in force at pc.
bool cfi_row_at(const CfiFunction& function, uint64_t pc, CfiRow& out);

}  // namespace heapsnap::tracker
