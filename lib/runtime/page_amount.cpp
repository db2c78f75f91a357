#include "runtime/page_amount.h"

namespace heapsnap {

RuntimeArea::Amount amount_in(uint64_t bytes, std::span<const PageState> pages) {
  RuntimeArea::Amount amount;
  amount.bytes = bytes;
  if (pages.empty()) return amount;
  uint64_t resident = 0;
  uint64_t swapped = 0;
  for (const PageState state : pages) {
    resident += state == PageState::kResident || state == PageState::kResidentFile ||
                        state == PageState::kResidentHuge
                    ? 1
                    : 0;
    swapped += state == PageState::kSwapped ? 1 : 0;
  }
  amount.resident = bytes * resident / pages.size();
  amount.swapped = bytes * swapped / pages.size();
  return amount;
}

}  // namespace heapsnap
