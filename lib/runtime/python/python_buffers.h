// What objects of the standard library's extension modules keep in memory of their own.
//
//   array.array                ob_item        ──►  | number | number | ...
//   collections.deque          leftblock      ──►  | left | 64 items | right |  ──►  ...
//   collections.OrderedDict    od_fast_nodes  ──►  | node | node | ...
//                              od_first       ──►  | key | hash | next | previous |  ──►  ...
//   ctypes                     b_ptr          ──►  bytes, where they are no others' and too many
//                                                  for the object itself
//   io.StringIO                buf            ──►  characters, four bytes each
//   open files                 buffer         ──►  bytes
//
// Where an object contradicts itself, or leads to where no memory can be written, it has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/address.h"
#include "runtime/python/python_types.h"
#include "target/address_space.h"
#include "target/page_cache.h"

namespace heapsnap {

struct PythonBuffer {
  Address at;  // null: there is none
  uint64_t bytes = 0;
};

// Blocks of one size, each of which leads to the next one.
struct PythonNodes {
  Address first;
  uint64_t count = 0;  // 0: there are none
  uint64_t bytes = 0;  // of each
  uint64_t next = 0;   // in each, where the address of the next one is
};

// Of a collections.deque, the same since 3.9 (Modules/_collectionsmodule.c).
struct PythonDeque {
  static constexpr uint64_t kFirstBlock = 24;
  static constexpr uint64_t kLastBlock = 32;
  static constexpr uint64_t kFirstIndex = 40;
  static constexpr uint64_t kLastIndex = 48;
  // Since 3.11: blocks that it keeps for reuse.
  static constexpr uint64_t kFreeCount = 72;
  static constexpr uint64_t kFree = 80;
  static constexpr uint64_t kMostFree = 16;
  static constexpr uint64_t kItems =
      64;  // of a block, between links to the one before and the next
  static constexpr uint64_t kBlockBytes = (kItems + 2) * 8;
  static constexpr uint64_t kNext = (kItems + 1) * 8;
};

// Of a collections.OrderedDict and its nodes, the same since 3.9 (Objects/odictobject.c).
struct PythonOrderedDict {
  static constexpr uint64_t kUsed = 16;  // ma_used
  static constexpr uint64_t kFirst = 48;
  static constexpr uint64_t kLast = 56;
  static constexpr uint64_t kTable = 64;
  static constexpr uint64_t kTableSize = 72;
  static constexpr uint64_t kResizedAt = 80;  // the dict's table, which it does not own
  static constexpr uint64_t kNodeBytes = 32;
  static constexpr uint64_t kHash = 8;
  static constexpr uint64_t kNext = 16;
};

// Of an object at `at`, which `bytes` are the first ones of.
PythonBuffer python_buffer(PageCache& cache, const AddressSpace& space, const PythonType& type,
                           Address at, std::span<const std::byte> bytes);
PythonNodes python_nodes(const AddressSpace& space, const PythonType& type,
                         std::span<const std::byte> bytes);

}  // namespace heapsnap
