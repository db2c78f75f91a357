#include "tracker/rule_table.h"

#include "tracker/modules.h"

namespace heapsnap::tracker {

namespace {

// A row that asks which instruction of the entry it is.
UnwindRule without_plt(UnwindRule rule, uint64_t pc) {
  if (rule.kind() != RuleKind::kPlt) return rule;
  const bool is_pushed = static_cast<int64_t>(pc & 15) >= rule.cfa_offset();
  return make_rule(RuleKind::kFromRsp, is_pushed ? 16 : 8);
}

uint64_t hash_of_frame(uint64_t pc, uint32_t module) {
  const uint64_t hash = (pc ^ (static_cast<uint64_t>(module) << 47)) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 32);
}

}  // namespace

void RuleTable::forget() {
  __builtin_memset(rules_, 0, kRules * sizeof(FrameRule));
  at(0)->pc = kNoAddress;
}

__attribute__((noinline)) const FrameRule* RuleTable::look_up(uint64_t pc, bool is_exact,
                                                              uint64_t i) {
  const RuleAt found = look_up_rule(is_exact ? pc : pc - 1);
  const UnwindRule rule = without_plt(found.rule, pc);
  *spare(i) = {pc,
               hash_of_frame(pc, found.module),
               static_cast<int32_t>(rule.cfa_offset()),
               found.module,
               static_cast<int16_t>(-8 * static_cast<int64_t>(rule.rbp_distance())),
               rule.kind(),
               found.lasting && !is_exact,
               rule};
  return spare(i);
}

const FrameRule* RuleTable::set_plain(uint64_t pc, uint32_t module, uint64_t i) {
  *spare(i) = {pc, hash_of_frame(pc, module), 0, module, 0, RuleKind::kFromRsp, false, {}};
  return spare(i);
}

void RuleTable::learn(const FrameRule* rule) {
  if (rule >= spare(0) && rule->is_lasting) {
    *const_cast<FrameRule*>(place_of(rule->pc)) = *rule;
  }
}

}  // namespace heapsnap::tracker
