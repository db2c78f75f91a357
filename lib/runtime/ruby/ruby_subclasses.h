// The lists by which a class finds its subclasses, and a module the classes that include it. The
// collector follows none of them: a class is not kept by the one above it.
//
//   Class   subclasses ──►  | class | next |  ──►  | class | next | ..     entries in blocks of malloc
//
// From 3.1 on the first entry is of no class. Without this each class would lead to all others, by
// way of the one that all are subclasses of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "references/runtime_objects.h"
#include "references/slot_map.h"
#include "runtime/ruby/ruby_layout.h"
#include "target/memory_reader.h"
#include "target/page_cache.h"

namespace heapsnap {

class RubySubclasses {
 public:
  // All outlive it.
  RubySubclasses(MemoryReader& memory, const RubyLayout& layout, RuntimeObjects& objects)
      : layout_(layout), objects_(objects), cache_(memory) {}

  // `module`: a class, a module, or one in the place of a class among its ancestors.
  void add_of(uint64_t module);

 private:
  static constexpr size_t kMostEntries = 1 << 20;

  const RubyLayout& layout_;
  RuntimeObjects& objects_;
  PageCache cache_;
  uint32_t entry_ = SlotMap::kBuffers;  // until there is one
  size_t entries_ = 0;
};

}  // namespace heapsnap
