// Where the pages of Ruby's object space are, and how their slots lie.
//
//   rb_objspace_t.heap_pages.sorted ──►  | struct heap_page* | struct heap_page* | ...
//                                                  |
//     struct heap_page: slot size, slots, start, flags, mark bits
//                                       |
//     body ──►  +--------+-----+--------v------+------+-- - --+
//               | header | gap | slot   | slot | slot |       |   16 or 64 KiB, aligned to that
//               +---|----+-----+--------+------+------+-- - --+
//                   └► the struct heap_page
//
// While the collector sweeps, pages that it has not come to yet hold dead objects: those whose
// mark bit is not set.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/ruby/ruby_place.h"
#include "target/target.h"

namespace heapsnap {

struct RubyPage {
  Address header;  // struct heap_page
  Address body;
  uint32_t start = 0;  // of the first slot, in the body
  uint32_t slot_bytes = 0;
  uint32_t slots = 0;
  bool is_unswept = false;
  uint64_t marks = 0;  // where its mark bits begin in RubyPages::marks; of an unswept one
};

struct RubyPages {
  std::vector<RubyPage> all;  // ascending by body, which do not overlap
  std::vector<uint64_t> marks;
  uint64_t damaged = 0;   // do not fit, and are left out
  std::string collector;  // what it is doing: "marking", "sweeping"; empty: nothing
  std::string why_not;    // one clause; empty: they are all

  // Whether the object in the slot at this place in an unswept page is dead.
  bool is_dead(const RubyPage& page, uint64_t offset) const {
    const uint64_t bit = offset / RubyLayout::kLeastSlot;
    return page.is_unswept && (marks[page.marks + bit / 64] >> bit % 64 & 1) == 0;
  }
};

// Bytes from one page's body to the next one's, where they lie together.
uint64_t ruby_page_distance(const RubyLayout& layout);

RubyPages find_ruby_pages(Target& target, const RubyLayout& layout, Address space);

}  // namespace heapsnap
