// What a block is to the container of libstdc++ that keeps its elements in it.
#pragma once

#include <cstdint>

#include "references/block_type.h"

namespace heapsnap {

// By how much is verified: what comes first is preferred.
enum class StorageKind : uint8_t {
  kNone = 0,
  kTreeNode = 1,
  kListNode = 2,
  kHashNode = 3,
  kHashBuckets = 4,
  kDequeMap = 5,
  kDequeBuffer = 6,
  kText = 7,
  kText16 = 8,
  kText32 = 9,
  kStreamBuffer = 10,
  kArray = 11,
};
inline constexpr int kStorageKindCount = 12;

const char* to_string(StorageKind kind);  // "std::vector storage", ...
// Whether blocks of that type, by their structure or by debug information, are a container's memory
// for elements, and no objects.
bool holds_elements(const BlockType& type);
// Of characters of 1, 2 or 4 bytes.
StorageKind text_of(uint64_t character_bytes);

}  // namespace heapsnap
