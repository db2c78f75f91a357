// Where Ruby's collector has addresses of objects that it does not keep alive.
//
//   rb_objspace_t   | ... | free slot | ... | object whose references were marked last | ... |
//   struct heap_page                         | ... | first slot | free slot | mark bits |
//   chunks of its stack                      | object | object | ... | next |
//   tables of object_ids, of finalizers      | hash | object | id or finalizers | ... |
//   what has left the transient heap         | object | object | ... |      an array, up to 3.2
//
// Every thread that has ever allocated has the address of the rb_objspace_t on its stack. Were
// these words references, a large hash that was marked last would belong to all threads and to its
// variable, and so to nobody.
#pragma once

#include <span>

#include "references/runtime_objects.h"
#include "runtime/ruby/ruby_layout.h"
#include "runtime/ruby/ruby_pages.h"
#include "target/memory_reader.h"

namespace heapsnap {

struct RubyCollector {
  Address space;                    // rb_objspace_t
  std::span<const RubyPage> pages;  // all, ascending
  Address promoted;                 // RubyTransientHeap's; null: there is none
};

// Adds these words to what is left over.
void add_ruby_collector(MemoryReader& memory, const RubyLayout& layout,
                        const RubyCollector& collector, RuntimeObjects& objects);

}  // namespace heapsnap
