#include "analysis/context_account.h"

#include <algorithm>

#include "analysis/context_census.h"

namespace heapsnap {

namespace {

// Takes up to `bytes` off what is left of a row.
uint64_t take_off(uint64_t& left, uint64_t bytes) {
  const uint64_t taken = std::min(left, bytes);
  left -= taken;
  return taken;
}

}  // namespace

ContextAccount account_contexts(const RssAccount& account, const RuntimeModel& model) {
  constexpr size_t kNamed = 3;
  ContextAccount found;
  found.program = account[RssRow::kProgram];
  found.mmapped = account[RssRow::kMmapped];
  const bool is_resident = account.basis == RssBasis::kResident;
  const auto size_of = [&](const RuntimeArea::Amount& amount) {
    return is_resident ? amount.resident : amount.bytes;
  };
  for (const ContextGroup& group : context_groups(model)) {
    if (found.rows.size() <= kNamed) {
      found.rows.push_back({found.rows.size() < kNamed ? group.name : "", 0, {}});
    }
    ContextAccount::Row& row = found.rows.back();
    row.contexts += group.count;
    row.amount.resident += take_off(found.program.resident, size_of(group.in_heaps)) +
                           take_off(found.mmapped.resident, size_of(group.in_mappings));
    row.amount.swapped += take_off(found.program.swapped, group.in_heaps.swapped) +
                          take_off(found.mmapped.swapped, group.in_mappings.swapped);
  }
  return found;
}

}  // namespace heapsnap
