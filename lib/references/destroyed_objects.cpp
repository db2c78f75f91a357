#include "references/destroyed_objects.h"

#include <cstdint>
#include <cstring>

namespace heapsnap {

bool is_destroyed_object(const BlockType& type, std::span<const std::byte> bytes, unsigned word) {
  int32_t counts[2];  // shared_ptrs, and weak_ptrs
  if (bytes.size() < word + sizeof counts) return false;
  std::memcpy(counts, bytes.data() + word, sizeof counts);
  return counts[0] == 0 && counts[1] > 0 && type.source == TypeSource::kVtable &&
         type.name.starts_with("std::_Sp_counted_ptr_inplace<");
}

}  // namespace heapsnap
