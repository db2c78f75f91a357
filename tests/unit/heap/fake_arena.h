// An arena as malloc_init_state leaves it, with a heap that is one top chunk.
#pragma once

#include "heap/malloc_layout.h"
#include "tests/unit/heap/fake_target.h"

namespace heapsnap {

struct FakeArena {
  FakeTarget& target;
  MallocLayout layout;
  Address address;

  uint64_t word(unsigned count) const { return uint64_t{layout.word} * count; }
  Address bin_chunk(unsigned index) const {
    return address + layout.state.bins + word(2 * index) - word(2);
  }
  void put_field(uint64_t offset, uint64_t value) const {
    target.put_word(address + offset, value);
  }
  void put_bin(unsigned index, Address fd, Address bk) const {
    target.put_word(bin_chunk(index) + word(2), fd.value());
    target.put_word(bin_chunk(index) + word(3), bk.value());
  }

  // 127 empty bins, a ring of one, nothing allocated.
  void make_empty() const {
    for (unsigned index = 0; index < 127; ++index) {
      put_bin(index, bin_chunk(index), bin_chunk(index));
    }
    put_field(layout.state.top, bin_chunk(0).value());
    put_field(layout.state.next, address.value());
    if (layout.state.has_attached_threads) put_field(layout.state.attached_threads, 1);
  }
  // The same with `size` bytes at `top` that are free.
  void make_used(Address top, uint64_t size) const {
    make_empty();
    put_field(layout.state.top, top.value());
    target.put_word(top + word(1), size | 1);
    put_field(layout.state.system_mem, size);
    put_field(layout.state.max_system_mem, size);
  }
  // A free chunk that is the only one of a bin.
  void put_in_bin(unsigned index, Address chunk) const {
    put_bin(index, chunk, chunk);
    target.put_word(chunk + word(2), bin_chunk(index).value());
    target.put_word(chunk + word(3), bin_chunk(index).value());
  }
};

}  // namespace heapsnap
