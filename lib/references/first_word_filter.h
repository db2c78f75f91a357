// First words of blocks that may tell what the block is: of objects, which begin with the address
// of a vtable, of rows of them, and of structures of the C library.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "base/address.h"
#include "references/block_types.h"
#include "references/object_rows.h"

namespace heapsnap {

class FirstWordFilter {
 public:
  // Vtables may lie in `range`, too.
  void add_vtables(const AddressRange& range) {
    if (range.is_empty()) return;
    const uint64_t first = range.begin.value() >> kPartShift;
    const uint64_t last = (range.end.value() - 1) >> kPartShift;
    for (uint64_t i = 0; i <= std::min<uint64_t>(last - first, kParts - 1); ++i) {
      parts_.set((first + i) % kParts);
    }
  }
  // False for most words that are no address of a vtable; never for one.
  bool may_be_vtable(uint64_t word) const { return parts_[(word >> kPartShift) % kParts]; }
  // The same of words that tell what a block is.
  bool may_tell_type(uint64_t word) const {
    return may_be_vtable(word) || may_begin_structure(word) || may_count_objects(word);
  }

 private:
  // A part has two megabytes; one bit is of many parts.
  static constexpr unsigned kPartShift = 21;
  static constexpr size_t kParts = 1 << 12;

  std::bitset<kParts> parts_;
};

}  // namespace heapsnap
