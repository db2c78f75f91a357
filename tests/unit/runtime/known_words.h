// What a runtime's walk said of the words of a block or slot.
#pragma once

#include <vector>

#include "references/runtime_objects.h"
#include "references/slot_map.h"

namespace heapsnap::test {

// Of a block of malloc; null: nothing.
inline const ObjectClass* class_of(const RuntimeObjects& objects, uint64_t at) {
  for (const RuntimeObjects::Block& block : objects.blocks) {
    if (block.at == Address(at)) return &objects.slots.classes()[block.of_class];
  }
  return nullptr;
}

using Words = std::vector<unsigned>;

// Of the first words, those that may be references.
inline Words kept(const ObjectClass& one, unsigned words) {
  Words found;
  for (unsigned i = 0; i < words; ++i) {
    if (!one.skips(i)) found.push_back(i);
  }
  return found;
}

}  // namespace heapsnap::test
