// What compiled code has in blocks of malloc of its own, of which not every word is a reference:
//
//   rb_iseq_constant_body   lines, names ──►      | number | number | .. |
//                           instructions ──►      | word | word | .. left over
//                           calls ──►             | call | cache | .. left over       since 3.0
//                           inline caches ──►     | serial | cref | value | ..        up to 2.7
//                           catch table ──►       | count | type | code of a rescue or ensure | ..
//                                                   packed, so that its pointers are not aligned
//
// What it remembers of constants the collector does not follow. (Since 3.0 it is in imemos, as what
// it remembers of calls is.) Words left over in such blocks have led from classes to threads.
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

class RubyCodeTables {
 public:
  // All outlive it.
  RubyCodeTables(MemoryReader& memory, const RubyLayout& layout, RuntimeObjects& objects)
      : layout_(layout), objects_(objects), cache_(memory) {}

  // `body`: of an iseq.
  void add_of(Address body);

 private:
  void add_numbers(Address table);
  void add_inline_caches(Address caches);
  // What the catch table leads to, which is held by it.
  void add_catch_table(Address table);
  // The block that a pointer in `body` leads to, of which so many bytes are set.
  void add_end(Address body, uint32_t pointer, uint64_t bytes);
  uint64_t count_at(Address body, uint32_t offset);
  // Null: there is none.
  Address block_at(Address body, uint32_t pointer);

  const RubyLayout& layout_;
  RuntimeObjects& objects_;
  PageCache cache_;
  size_t bodies_ = 0;
  uint64_t entries_left_ = 16 << 20;      // of catch tables, to look at
  uint32_t numbers_ = SlotMap::kBuffers;  // until there are some, as the other
  uint32_t inline_caches_ = SlotMap::kBuffers;
};

}  // namespace heapsnap
