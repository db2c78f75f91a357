// Sums of a RuntimeModel that hold whatever the memory held that it was read from.
#pragma once

#include "runtime/runtime_model.h"

namespace heapsnap::test {

// What of a runtime has to add up, whatever its memory holds.
inline bool adds_up(const RuntimeModel& model) {
  for (const Runtime& runtime : model.runtimes) {
    const uint64_t sum =
        runtime.used_bytes + runtime.free_bytes + runtime.overhead_bytes + runtime.unread_bytes;
    if (sum > runtime.area_bytes || runtime.other_slot_bytes > runtime.used_bytes) return false;
  }
  for (const RuntimeArea& area : model.areas) {
    const uint64_t sum = area.used.bytes + area.free_in_page.bytes + area.free_in_area.bytes;
    if (sum > area.range.size()) return false;
    for (const auto& amount : {area.used, area.free_in_page, area.free_in_area}) {
      if (amount.resident + amount.swapped > amount.bytes) return false;
    }
  }
  return true;
}

}  // namespace heapsnap::test
