// Sums of a RuntimeModel that hold whatever the memory held that it was read from.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "references/runtime_objects.h"
#include "runtime/runtime_model.h"

namespace heapsnap::test {

// Null: there is no row of that name.
inline const RuntimeClass* find_class(const RuntimeModel& model, const std::string& name) {
  for (const RuntimeClass& row : model.classes) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Of which kind a buffer is by what its object says; empty: none says it.
inline std::string kind_of_buffer(const RuntimeObjects& objects, uint64_t at) {
  const std::vector<ObjectClass>& classes = objects.slots.classes();
  uint32_t of_class = SlotMap::kBuffers;
  if (const auto slot = objects.slots.find(at)) of_class = objects.slots.class_number(slot->number);
  for (const RuntimeObjects::Block& block : objects.blocks) {
    if (block.at == Address(at)) of_class = block.of_class;
  }
  const uint8_t kind = classes[of_class].kind;
  return kind == 0 ? std::string() : objects.buffer_kinds[kind - 1].name;
}

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

// What holds of all else that is said for the graph of references.
inline bool is_sound(const RuntimeObjects& objects) {
  constexpr size_t kLongestName = 1024;
  const auto is_range = [](const AddressRange& range) { return range.begin < range.end; };
  const auto has_class = [&](uint32_t number) { return number < objects.slots.classes().size(); };
  const auto is_shown = [](const std::string& name) {
    return !name.empty() && name.size() <= kLongestName &&
           std::all_of(name.begin(), name.end(), [](char c) { return c < 0 || c >= ' '; });
  };
  for (const auto& variable : objects.variables) {
    const bool is_local = variable.kind == RootKind::kLocal;
    if (!is_shown(variable.name) || variable.module.empty()) return false;
    if (!is_local && variable.tid != 0) return false;
  }
  for (const auto& part : objects.apart) {
    if (part.bytes == 0 || !is_range({part.words, part.words + part.bytes})) return false;
  }
  const bool are_ranges =
      std::all_of(objects.unused.begin(), objects.unused.end(), is_range) &&
      std::all_of(objects.left_over.begin(), objects.left_over.end(),
                  [](const RuntimeObjects::LeftOver& words) { return words.from < words.to; });
  return are_ranges &&
         std::all_of(
             objects.blocks.begin(), objects.blocks.end(),
             [&](const RuntimeObjects::Block& block) { return has_class(block.of_class); }) &&
         std::all_of(objects.listed.begin(), objects.listed.end(),
                     [](const RuntimeObjects::Listed& one) { return one.by != one.at; });
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
    const auto check = [&](uint32_t slot, Address begin, const AddressRange& part, uint64_t skip) {
      const auto found = objects.slots.find(part.end.value() - 1);
      is_right &= begin <= part.begin && part.begin < part.end && found && found->number == slot;
      is_right &= skip == objects.slots.class_of(slot).skip;
    };
    objects.slots.each_part(range, check);
  }
  return is_right && next == objects.slots.size();
}

}  // namespace heapsnap::test
