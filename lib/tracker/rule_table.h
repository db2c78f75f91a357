// What is known of each return address: the row that describes its frame and its share of a stack's
// hash, in one place of a table that a thread has of its own. It is nearly always there; if not, it
// is looked up among the modules and put into one of the spare places after the table, since
// another frame of the same stack may need what is in its proper place. learn() moves it there when
// no frame does any more.
#pragma once

#include <cstdint>

#include "tracker/unwind_rows.h"

namespace heapsnap::tracker {

struct alignas(32) FrameRule {
  uint64_t pc;
  uint64_t hash;  // of pc and module
  int32_t cfa_offset;
  uint32_t module;
  int16_t rbp_offset;  // from the CFA; 0: the caller's rbp is still in the register
  RuleKind kind;
  bool is_lasting;  // may be used for the next stack too
  UnwindRule shape;
};

class RuleTable {
 public:
  static uint64_t bytes(uint64_t spares) { return sizeof(FrameRule) * (kRules + spares); }
  // `memory` is zeros, so many bytes.
  void use(void* memory) {
    rules_ = static_cast<char*>(memory);
    at(0)->pc = kNoAddress;
  }
  void forget();

  // Where the rule of pc is, if it is there (FrameRule::pc says so).
  const FrameRule* place_of(uint64_t pc) const {
    // No two calls return to less than four bytes from each other, as good as never. Frames wait
    // for this, so it is one shift and one mask.
    return at(pc << 3 & ((kRules - 1) * sizeof(FrameRule)));
  }
  // Asks the modules, and gives spare place i with the rule. `is_exact`: pc is that of an
  // instruction, not a return address.
  const FrameRule* look_up(uint64_t pc, bool is_exact, uint64_t i);
  // In spare place i, a frame that the slow unwinder found.
  const FrameRule* set_plain(uint64_t pc, uint32_t module, uint64_t i);
  // A rule in a spare place goes to the one it belongs to.
  void learn(const FrameRule* rule);

 private:
  static constexpr uint64_t kRules = 4096;
  static constexpr uint64_t kNoAddress = 1;  // not 0, which a stack may hold

  FrameRule* at(uint64_t offset) const { return reinterpret_cast<FrameRule*>(rules_ + offset); }
  FrameRule* spare(uint64_t i) const { return at((kRules + i) * sizeof(FrameRule)); }

  char* rules_ = nullptr;
};

}  // namespace heapsnap::tracker
