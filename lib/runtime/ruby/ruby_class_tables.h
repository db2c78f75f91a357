// What a class or module has in blocks of malloc that is in lists and tables of its own.
//
//   Class   methods ──►      table ──►     | number | method | number | method | ..
//           call caches ──►  table ──►     | number | caches | ..
//                                                      caches ──►  | method, count, calls |
//                                                      calls ──►   | call | found | .. | left over
//           subclasses ──►   | class | next |  ──►  | class | next | ..
//
// A list of subclasses, or of the classes that include a module, leads to no class: the collector
// does not follow it, and each class would lead to all others, by way of the one that all are
// subclasses of. From 3.1 on its first entry is of no class.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address.h"
#include "references/runtime_objects.h"
#include "references/slot_map.h"
#include "runtime/ruby/ruby_layout.h"
#include "target/memory_reader.h"
#include "target/page_cache.h"

namespace heapsnap {

class RubyClassTables {
 public:
  // All outlive it.
  RubyClassTables(MemoryReader& memory, const RubyLayout& layout, RuntimeObjects& objects)
      : layout_(layout), objects_(objects), cache_(memory) {}

  // `module`: a class, a module, or one in the place of a class among its ancestors.
  void add_of(uint64_t module);

 private:
  static constexpr size_t kMostEntries = 1 << 20;

  void add_methods(Address place);
  // Of a method: the calls of it that are remembered, in a block that has room for more.
  void add_call_caches(Address place);
  void add_subclasses(Address place);

  const RubyLayout& layout_;
  RuntimeObjects& objects_;
  PageCache cache_;
  uint32_t methods_ = SlotMap::kBuffers;  // until there is one, as the other
  uint32_t entry_ = SlotMap::kBuffers;
  size_t entries_ = 0;
  // Of keys to look at: damaged classes could all have the same large table.
  uint64_t keys_ = uint64_t{1} << 24;
};

}  // namespace heapsnap
