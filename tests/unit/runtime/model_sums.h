// Sums of a RuntimeModel that hold whatever the memory held that it was read from.
#pragma once

#include "references/runtime_objects.h"
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

// What holds of slots, sealed: each is found where it is, and gives no words that are not its own.
inline bool fits(const RuntimeObjects& objects) {
  bool is_right = true;
  uint32_t next = 0;
  objects.slots.each_slot([&](uint32_t slot, Address begin, uint32_t bytes) {
    const auto found = objects.slots.find(begin.value() + bytes - 1);
    is_right &= slot == next++ && found && found->number == slot;
    is_right &= objects.slots.class_number(slot) < objects.slots.classes().size();
  });
  for (const AddressRange& range : objects.slots.memory()) {
    objects.slots.each_part(range, [&](uint32_t slot, Address begin, const AddressRange& part) {
      const auto found = objects.slots.find(part.end.value() - 1);
      is_right &= begin <= part.begin && part.begin < part.end && found && found->number == slot;
    });
  }
  return is_right && next == objects.slots.size();
}

}  // namespace heapsnap::test
