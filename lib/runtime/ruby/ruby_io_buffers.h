// The buffers of IO objects: characters, in blocks of malloc that may have been something else
// before.
//
//   T_FILE   fptr ──►  rb_io_t   | .. | wbuf | rbuf | .. | cbuf | ..
//                                       │
//                                       ▼ rb_io_buffer_t, packed: pointer, three numbers
//                                       | characters | .. left over
//
// Since each has 20 bytes, the pointer of rbuf lies at no address that a word has, where nothing
// that looks for references sees it.
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

class RubyIoBuffers {
 public:
  // All outlive it.
  RubyIoBuffers(MemoryReader& memory, const RubyLayout& layout, RuntimeObjects& objects)
      : layout_(layout), objects_(objects), cache_(memory) {}

  // `io`: an rb_io_t.
  void add_of(Address io);

 private:
  const RubyLayout& layout_;
  RuntimeObjects& objects_;
  PageCache cache_;
  size_t count_ = 0;                     // of IO objects
  uint32_t buffer_ = SlotMap::kBuffers;  // until there is one
};

}  // namespace heapsnap
