#include "heap/walk/reserved_ends.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

Mapping memory_of_core(uint64_t begin, uint64_t end, bool writable) {
  Mapping mapping;
  mapping.range = {Address(begin), Address(end)};
  mapping.readable = true;
  mapping.writable = writable;
  return mapping;
}

HeapSegment thread_heap(uint64_t begin, uint64_t end) {
  HeapSegment segment;
  segment.range = {Address(begin), Address(end)};
  segment.kind = SegmentKind::kThreadHeap;
  return segment;
}

}  // namespace

TEST_CASE("what a core says to be readable behind a thread heap is reserved") {
  const uint64_t begin = 0x7f0000000000;
  const uint64_t next = begin + (64 << 20);
  std::vector<Mapping> mappings = {memory_of_core(begin, begin + 0x21000, true),
                                   memory_of_core(begin + 0x21000, next, false)};
  // It has given memory back at its end, which remains writable.
  const std::vector<HeapSegment> heaps = {thread_heap(begin + 0x8d0, begin + 0x10000)};
  SUBCASE("its reserved end") {
    mark_reserved_ends(mappings, heaps, 8);
    CHECK(mappings[0].readable);
    CHECK_FALSE(mappings[1].readable);
  }
  SUBCASE("merged with the guard page of a stack that lies there") {
    mappings[1].range.end = Address(next + 0x1000);
    mark_reserved_ends(mappings, heaps, 8);
    CHECK_FALSE(mappings[1].readable);
  }
  SUBCASE("not a heap's") {
    HeapSegment segment = heaps[0];
    segment.kind = SegmentKind::kMapped;
    mark_reserved_ends(mappings, std::vector{segment}, 8);
    CHECK(mappings[1].readable);
  }
  SUBCASE("of a file") {
    mappings[1].inode = 1;
    mark_reserved_ends(mappings, heaps, 8);
    CHECK(mappings[1].readable);
  }
  SUBCASE("not at the heap's end") {
    mappings[1].range.begin += 0x1000;
    mark_reserved_ends(mappings, heaps, 8);
    CHECK(mappings[1].readable);
  }
  SUBCASE("writable or executable") {
    mappings[1].executable = true;
    mark_reserved_ends(mappings, heaps, 8);
    CHECK(mappings[1].readable);
  }
  SUBCASE("behind the last mapping is nothing") {
    mappings.pop_back();
    mark_reserved_ends(mappings, heaps, 8);
    CHECK(mappings[0].readable);
  }
}

TEST_CASE("a heap that has grown to its most has nothing reserved") {
  const uint64_t begin = 0xf6000000;
  const auto is_reserved = [=](unsigned word) {
    std::vector<Mapping> mappings = {memory_of_core(begin, begin + (1 << 20), true),
                                     memory_of_core(begin + (1 << 20), begin + (2 << 20), false)};
    mark_reserved_ends(mappings, std::vector{thread_heap(begin + 0x8d0, begin + (1 << 20))}, word);
    return !mappings[1].readable;
  };
  CHECK_FALSE(is_reserved(4));
  CHECK(is_reserved(8));
}
