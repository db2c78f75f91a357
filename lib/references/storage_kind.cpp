#include "references/storage_kind.h"

#include <algorithm>

namespace heapsnap {

StorageKind text_of(uint64_t character_bytes) {
  switch (character_bytes) {
    case 2: return StorageKind::kText16;
    case 4: return StorageKind::kText32;
    default: return StorageKind::kText;
  }
}

const char* to_string(StorageKind kind) {
  switch (kind) {
    case StorageKind::kNone: break;
    case StorageKind::kTreeNode: return "std::map/set node";
    case StorageKind::kListNode: return "std::list node";
    case StorageKind::kHashNode: return "std::unordered_map/set node";
    case StorageKind::kHashBuckets: return "std::unordered_map/set buckets";
    case StorageKind::kDequeMap: return "std::deque map";
    case StorageKind::kDequeBuffer: return "std::deque buffer";
    case StorageKind::kText: return "std::string characters";
    case StorageKind::kText16: return "std::u16string characters";
    case StorageKind::kText32: return "std::wstring/u32string characters";
    case StorageKind::kArray: return "std::vector storage";
    case StorageKind::kStreamBuffer: return "std::filebuf buffer";
  }
  return "unknown";
}

bool holds_elements(const BlockType& type) {
  constexpr StorageKind kKinds[] = {StorageKind::kArray, StorageKind::kDequeBuffer,
                                    StorageKind::kDequeMap, StorageKind::kHashBuckets};
  if (type.source == TypeSource::kDebugInfo) return type.name.ends_with("[]");
  return type.source == TypeSource::kStructure &&
         std::ranges::any_of(kKinds,
                             [&](StorageKind kind) { return type.name == to_string(kind); });
}

}  // namespace heapsnap
