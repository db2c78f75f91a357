// The transient heap of a FakeRuby up to 3.2: an arena of four blocks, of which two are in use.
//
//   0x100100   data: its state
//   0x50000000 the arena
#pragma once

#include "runtime/ruby/ruby_transient.h"
#include "tests/unit/runtime/fake_ruby.h"

namespace heapsnap::test {

struct FakeTransientHeap {
  static constexpr uint64_t kState = FakeRuby::kVariables + 0x100;
  static constexpr uint64_t kArena = 0x50000000;
  static constexpr uint64_t kBlock = 0x8000;

  FakeRuby& ruby;
  const RubyLayout& layout = ruby.layout;

  explicit FakeTransientHeap(FakeRuby& fake) : ruby(fake) {
    ruby.target.map("50000000-50020000 rw-p 00000000 00:00 0");
    ruby.put(kState + layout.transient_using, kArena);
    ruby.put(kState + layout.transient_marked, kArena + kBlock);
    ruby.put(kState + layout.transient_free, kArena + 2 * kBlock);
    ruby.put_int(kState + layout.transient_blocks, 2);
    ruby.put(kState + layout.transient_arena, kArena);
    ruby.put_int(kState + layout.transient_arena_index, 4);
    ruby.put_short(kArena + layout.transient_index, 0x1200);
    ruby.put_short(kArena + kBlock + layout.transient_index, 0x7ff0);
    ruby.put(kArena + 2 * kBlock + layout.transient_next, kArena + 3 * kBlock);
  }
  RubyTransientHeap find() {
    return find_ruby_transient_heap(ruby.target, layout, ruby.place.data);
  }
};

}  // namespace heapsnap::test
