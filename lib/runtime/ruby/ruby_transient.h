// Ruby's transient heap (up to 3.2): where buffers of young arrays, hashes, structs and objects
// lie, until their owner has become old or has died.
//
//   .bss   struct transient_heap | using | marked | free | ... | arena | arena_index |
//                                    |       |                     |
//                                    v       v                     v
//   arena  32 MiB                 +-------+-------+- - -        +-------+
//                                 | block | block |             | block |    of 32 KiB, aligned
//                                 +-------+-------+- - -        +-------+
//     block  | index | ... | next |  buffer | buffer | ... free      `index` bytes of buffers
//     buffer | magic, size | object |  what the object has there
//
// The state has no symbol. It is found by what must be in it: lists of blocks that lie in an arena
// whose size is that of all its blocks, and counts that fit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/ruby/ruby_layout.h"
#include "runtime/runtime_model.h"
#include "target/target.h"

namespace heapsnap {

struct RubyTransientHeap {
  AddressRange arena;        // empty: there is none, or it was not found
  uint64_t block_bytes = 0;  // of each of its blocks
  // By block: bytes from its begin on that are in use, its header included; 0: it is free.
  std::vector<uint32_t> used;
  Address promoted;  // a block of malloc: objects that have become old, and what there was before
};

// Finds it in the module's writable data. Throws nothing but what reading throws.
RubyTransientHeap find_ruby_transient_heap(Target& target, const RubyLayout& layout,
                                           std::span<const AddressRange> data);

// What its blocks have in use and what is free in them and beside them, by the pages' states.
// Nothing where it is empty.
std::optional<RuntimeArea> ruby_transient_area(Target& target, const RubyTransientHeap& heap);

}  // namespace heapsnap
