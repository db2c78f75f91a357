#include "references/destroyed_objects.h"

#include <cstdint>
#include <cstring>

namespace heapsnap {

namespace {

// More is rather an arena's memory, of which such an object is the first one.
constexpr uint64_t kMostBytesOfBlock = 1000;

}  // namespace

bool is_shared_object(const BlockType& type) {
  return type.source == TypeSource::kVtable &&
         (type.name.starts_with("std::_Sp_counted_ptr_inplace<") ||
          type.name.starts_with("std::_Sp_counted_array<"));
}

bool is_destroyed_object(const BlockType& type, std::span<const std::byte> bytes, uint64_t usable,
                         unsigned word) {
  int32_t counts[2];  // shared_ptrs, and weak_ptrs
  if (bytes.size() < word + sizeof counts) return false;
  std::memcpy(counts, bytes.data() + word, sizeof counts);
  return counts[0] == 0 && counts[1] > 0 && usable <= kMostBytesOfBlock && is_shared_object(type);
}

}  // namespace heapsnap
