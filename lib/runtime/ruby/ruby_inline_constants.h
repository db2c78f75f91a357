// Up to 2.7, what compiled code remembers of constants, in a block of malloc: no references, as
// the collector knows them. (Since then it is in imemos.)
//
//   rb_iseq_t ──► rb_iseq_constant_body ──►  | serial | cref | value | serial | cref | value | ..
#pragma once

#include <cstdint>

#include "base/address.h"
#include "references/runtime_objects.h"
#include "references/slot_map.h"
#include "runtime/ruby/ruby_layout.h"
#include "target/memory_reader.h"
#include "target/page_cache.h"

namespace heapsnap {

class RubyInlineConstants {
 public:
  // All outlive it.
  RubyInlineConstants(MemoryReader& memory, const RubyLayout& layout, RuntimeObjects& objects)
      : layout_(layout), objects_(objects), cache_(memory) {}

  // `body`: of an iseq.
  void add_of(Address body);

 private:
  const RubyLayout& layout_;
  RuntimeObjects& objects_;
  PageCache cache_;
  uint32_t entries_ = SlotMap::kBuffers;  // until there are some
};

}  // namespace heapsnap
