// Reads memory of the process that may not be there: the kernel says of each page whether it can be
// read (control_block.h), before a byte of it is looked at.
//
// That holds as long as nobody unmaps the page meanwhile. So it is a guard, for addresses that
// ought to be right since their owner has the interpreter's lock, and no licence to read anything.
#pragma once

#include <cstdint>

#include "tracker/arch_x86_64.h"
#include "tracker/control_block.h"

namespace heapsnap::tracker {

// For one moment: it remembers which pages could be read.
class CheckedMemory {
 public:
  bool read(uint64_t address, void* to, uint64_t size) {
    if (size == 0) return true;
    const void* const from = view(address, size);
    if (from == nullptr) return false;
    __builtin_memcpy(to, from, size);
    return true;
  }

  // Compares in the kernel, so the word may be unmapped at any moment.
  static bool is_equal(uint64_t address, uint32_t value) { return is_word_equal(address, value); }

  // The bytes themselves; null: they cannot be read.
  const void* view(uint64_t address, uint64_t size) {
    if (address < kPage || address + size < address) return nullptr;
    for (uint64_t page = address & ~(kPage - 1); page < address + size; page += kPage) {
      uint64_t& known = known_[page / kPage % kKnown];
      if (known == page) continue;
      if (!is_word_readable(page)) return nullptr;
      known = page;
    }
    return reinterpret_cast<const void*>(address);
  }

 private:
  static constexpr uint64_t kKnown = 64;
  uint64_t known_[kKnown] = {};
};

}  // namespace heapsnap::tracker
