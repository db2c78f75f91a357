// Maps of Ruby's that do not keep what is in them alive.
//
//   ObjectSpace::WeakMap, up to 3.2
//     obj2wmap ──►  st_table   | hash | value | keys ──►  | count | key | key | ..
//     wmap2obj ──►  st_table   | hash | key | value |
//     final                    a Proc, which is a reference
//   ObjectSpace::WeakMap, since 3.3
//     table ──►     st_table   | hash | pair ──►  | key | value |
//                              |      | and its second word |
//   ObjectSpace::WeakKeyMap, since 3.3
//     table ──►     st_table   | hash | place ──►  | key |
//                              |      | value |           which is a reference
//
// Nothing else in these blocks and tables is a reference.
#pragma once

#include <cstdint>
#include <span>

#include "references/runtime_objects.h"
#include "references/slot_map.h"
#include "runtime/ruby/ruby_graph.h"
#include "runtime/ruby/ruby_layout.h"
#include "runtime/ruby/ruby_table.h"
#include "target/memory_reader.h"
#include "target/page_cache.h"

namespace heapsnap {

class RubyWeakMaps {
 public:
  // All outlive it.
  RubyWeakMaps(MemoryReader& memory, const RubyLayout& layout, RubyGraph& graph,
               RuntimeObjects& objects)
      : memory_(memory), layout_(layout), graph_(graph), objects_(objects), cache_(memory) {}

  // After the last slot. `maps`: what objects of type "weakmap" or "weakkeymap" have.
  void add(std::span<const uint64_t> maps);

 private:
  // Up to 3.2: where its keys are, by value.
  void add_keys(const RubyTable& table);
  // The blocks that a word of each entry leads to hold nothing.
  void add_places(const RubyTable& table, bool is_key);

  MemoryReader& memory_;
  const RubyLayout& layout_;
  RubyGraph& graph_;
  RuntimeObjects& objects_;
  PageCache cache_;
  uint32_t keys_ = SlotMap::kBuffers;  // until there is one, as the other
  uint32_t places_ = SlotMap::kBuffers;
  // Of entries to look at: damaged maps could all have the same large table.
  uint64_t entries_left_ = uint64_t{1} << 24;
};

}  // namespace heapsnap
