// Lists of free chunks: what they say, and what happens when they are damaged.
#include "heap/walk/free_lists.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/unit/heap/recorded_walk.h"

using namespace heapsnap;

namespace {

// A main arena with a tcache, in which every second chunk is free in `state`.
struct ListedHeap {
  SyntheticHeap heap;
  std::vector<Address> listed;

  ListedHeap(int minor, ChunkState state, unsigned count, uint64_t size = 0x40)
      : heap(Machine::kX86_64, minor) {
    SyntheticArena& main = heap.brk_arena(256);
    heap.thread(main, 1);
    for (unsigned i = 0; i < count; ++i) {
      main.add(0x50, ChunkState::kUsed);
      listed.push_back(main.add(size, state));
    }
    main.add(0x20, ChunkState::kUsed);
    main.top(heap.heap_begin() + 256 * kPage - main.cursor());
    main.system_mem = 256 * kPage;
    heap.finish();
  }
  Address link_of(size_t i) const { return listed[i] + 0x10; }
  uint64_t protected_link(size_t i, Address to) const {
    return to.value() ^ (heap.layout.safe_linking ? link_of(i).value() >> 12 : 0);
  }
  Address head_of_fastbin() const {
    return const_cast<SyntheticHeap&>(heap).main().state() + heap.layout.state.fastbins + 2 * 8;
  }
};

}  // namespace

TEST_CASE("a ring in a fastbin ends, with one complaint, and its chunks are known") {
  for (const int minor : {31, 36}) {
    ListedHeap it(minor, ChunkState::kFastbin, 100);
    it.heap.target.put_word(it.link_of(99), it.protected_link(99, it.listed[20]));
    const RecordedWalk walk(it.heap);
    CHECK(walk.has_complaint("fastbin 2 is circular"));
    CHECK(walk.count(ChunkState::kFastbin) == 100);
    CHECK(walk.model.corruptions.size() < 200);
  }
}

TEST_CASE("a fastbin link to no chunk, to one of another size, or to an odd place ends the list") {
  ListedHeap it(36, ChunkState::kFastbin, 100);
  Address to;
  SUBCASE("outside") {
    to = Address(0x1000);
  }
  SUBCASE("odd") {
    to = it.listed[51] + 8;
  }
  SUBCASE("another size") {
    to = it.listed[51] - 0x50;
  }
  it.heap.target.put_word(it.link_of(49), it.protected_link(49, to));
  const RecordedWalk walk(it.heap);
  CHECK(walk.model.corruptions.size() == 1);
  CHECK(walk.has_complaint("fastbin 2 links to"));
  CHECK(walk.count(ChunkState::kFastbin) == 50);
  CHECK(walk.model.corruptions[0].where == it.link_of(49));
}

TEST_CASE("damage in the unsorted list is walked around from its other end") {
  ListedHeap it(36, ChunkState::kUnsorted, 100);
  SUBCASE("a forward link") {
    it.heap.target.put_word(it.link_of(49), 0x41414141);
  }
  SUBCASE("a back link") {
    it.heap.target.put_word(it.link_of(50) + 8, 0x41414141);
  }
  const RecordedWalk walk(it.heap);
  CHECK(walk.model.corruptions.size() == 1);
  CHECK(walk.has_complaint("the unsorted list links to"));
  CHECK(walk.count(ChunkState::kUnsorted) >= 99);
  // What no list names any more is in the bin of its size, as far as flags can tell.
  CHECK(walk.count(ChunkState::kUnsorted) + walk.count(ChunkState::kSmallbin) == 100);
}

TEST_CASE("an unsorted list that never comes back to its bin is a ring") {
  ListedHeap it(36, ChunkState::kUnsorted, 100);
  // Links of both directions agree, so that only the ring tells.
  it.heap.target.put_word(it.link_of(99), it.listed[0].value());
  it.heap.target.put_word(it.link_of(0) + 8, it.listed[99].value());
  it.heap.target.put_word(it.heap.main().state() + it.heap.layout.state.bins, it.listed[0].value());
  const RecordedWalk walk(it.heap);
  CHECK(walk.model.corruptions.size() >= 1);
  CHECK(walk.has_complaint("the unsorted list"));
}

TEST_CASE("a long unsorted list in any order is followed in a bounded number of reads") {
  for (const bool is_damaged : {false, true}) {
    SyntheticHeap heap(Machine::kX86_64, 36);
    SyntheticArena& main = heap.brk_arena(1 << 14);
    std::vector<Address> listed;
    for (unsigned i = 0; i < 100000; ++i) {
      main.add(0x150, ChunkState::kUsed);
      listed.push_back(main.add(0x50, ChunkState::kSmallbin));
      heap.expected.back().state = ChunkState::kUnsorted;
    }
    main.add(0x20, ChunkState::kUsed);
    main.top(heap.heap_begin() + (1 << 14) * kPage - main.cursor());
    main.system_mem = (1 << 14) * kPage;
    heap.idle_thread(1);
    heap.finish();
    std::shuffle(listed.begin(), listed.end(), std::mt19937(7));
    const Address bin = main.state() + heap.layout.state.bins - 0x10;
    Address previous = bin;
    for (const Address chunk : listed) {
      heap.target.put_word(previous + 0x10, chunk.value());
      heap.target.put_word(chunk + 0x18, previous.value());
      previous = chunk;
    }
    heap.target.put_word(previous + 0x10, bin.value());
    heap.target.put_word(bin + 0x18, previous.value());
    if (is_damaged) heap.target.put_word(listed[80000] + 0x10, 0x12345);

    const RecordedWalk walk(heap);
    if (is_damaged) {
      CHECK(walk.model.corruptions.size() == 1);
      CHECK(walk.count(ChunkState::kUnsorted) == 100000);
    } else {
      CHECK(complaints(walk) == "");
      CHECK(walk.sink.chunks == heap.expected);
      // Three times through the heap and a part of it page by page; by the list alone it would be
      // 400 MiB.
      CHECK(heap.target.bytes_read() < (1 << 14) * kPage * 4);
    }
  }
}

TEST_CASE("long fastbins in any order are followed in a bounded number of reads") {
  for (const int minor : {31, 36}) {
    SyntheticHeap heap(Machine::kX86_64, minor);
    SyntheticArena& main = heap.brk_arena(1 << 14);
    std::vector<Address> listed;
    for (unsigned i = 0; i < 100000; ++i) {
      const Address used = main.add(0x60, ChunkState::kUsed);
      // Contents that look like a link: an address of the heap.
      heap.target.put_word(used + 0x10, (used + 0x60).value());
      main.add(0x100, ChunkState::kUsed);
      listed.push_back(main.add(0x60, ChunkState::kUsed));
      heap.expected.back().state = ChunkState::kFastbin;
    }
    main.top(heap.heap_begin() + (1 << 14) * kPage - main.cursor());
    main.system_mem = (1 << 14) * kPage;
    heap.idle_thread(1);
    heap.finish();
    std::shuffle(listed.begin(), listed.end(), std::mt19937(7));
    heap.target.put_word(main.state() + heap.layout.state.fastbins + 4 * 8, listed[0].value());
    for (size_t i = 0; i < listed.size(); ++i) {
      const Address link = listed[i] + 0x10;
      const uint64_t next = i + 1 < listed.size() ? listed[i + 1].value() : 0;
      heap.target.put_word(link, next ^ (heap.layout.safe_linking ? link.value() >> 12 : 0));
    }
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "");
    CHECK(walk.sink.chunks == heap.expected);
    CHECK(heap.target.bytes_read() < (1 << 14) * kPage * 3);
  }
}

TEST_CASE("tcaches: counts that differ from lists, rings, wrong chunks") {
  for (const int minor : {28, 31, 36, 42, 43}) {
    CAPTURE(minor);
    ListedHeap it(minor, ChunkState::kTcache, 5);
    const auto& layout = it.heap.layout.tcache;
    const Address tcache = it.heap.expected[0].at + 0x10;
    const unsigned bin = 2;
    std::string expected;
    uint64_t found = 5;
    SUBCASE("sound") {}
    SUBCASE("the count is too large") {
      const uint16_t count = layout.counts_down ? 0 : 7;
      it.heap.target.put_bytes(tcache + bin * layout.count_size,
                               std::as_bytes(std::span(&count, 1)).first(layout.count_size));
      expected = "counts 7 chunks but lists 5";
    }
    SUBCASE("the list is a ring") {
      it.heap.target.put_word(it.link_of(4), it.protected_link(4, it.listed[1] + 0x10));
      expected = "is circular";
    }
    SUBCASE("a link leads into no heap") {
      it.heap.target.put_word(it.link_of(2), it.protected_link(2, Address(0x2000)));
      expected = "which is not in a heap";
      found = 3;
    }
    SUBCASE("a link leads to a chunk of another size") {
      it.heap.target.put_word(it.link_of(2), it.protected_link(2, it.listed[3] - 0x40));
      expected = "a chunk of size 0x50";
      found = 3;
    }
    const RecordedWalk walk(it.heap);
    CHECK(walk.count(ChunkState::kTcache) == found);
    if (expected.empty()) {
      CHECK(complaints(walk) == "");
      REQUIRE(walk.model.thread_caches.size() == 1);
      CHECK(walk.model.thread_caches[0].chunks == 5);
      CHECK(walk.model.thread_caches[0].bytes == 5 * 0x40);
      CHECK(walk.model.thread_caches[0].tcache == tcache);
    } else {
      CHECK(walk.has_complaint(expected));
    }
  }
}

TEST_CASE("tcaches that share their chunks list no more than the heaps can hold") {
  constexpr unsigned kThreads = 40;
  SyntheticHeap heap(Machine::kX86_64, 36);
  constexpr uint64_t kSize = 16 * kPage;
  SyntheticArena& main = heap.brk_arena(kSize / kPage);
  const Address first = main.cursor() + 0x10;
  for (unsigned i = 0; i < kThreads; ++i) heap.thread(main, static_cast<int>(i + 1));
  for (unsigned i = 0; i < 800; ++i) main.add(0x20, ChunkState::kTcache);
  main.top(heap.heap_begin() + kSize - main.cursor());
  main.system_mem = kSize;
  heap.finish();
  const auto& tcache = heap.layout.tcache;
  const uint64_t step = heap.layout.tcache_chunk_size();
  const uint64_t head = heap.target.word(first + (kThreads - 1) * step + tcache.entries);
  REQUIRE(head != 0);
  for (unsigned i = 0; i + 1 < kThreads; ++i) {
    const Address at = first + i * step;
    const uint16_t count = 800;
    heap.target.put_bytes(at, std::as_bytes(std::span(&count, 1)));
    heap.target.put_word(at + tcache.entries, head);
  }
  const RecordedWalk walk(heap);
  CHECK(walk.has_complaint("list as many chunks as fit in the heaps"));
  uint64_t listed = 0;
  for (const ThreadCache& thread : walk.model.thread_caches) listed += thread.chunks;
  CHECK(listed >= 800);
  CHECK(listed <= kSize / 0x20);
  CHECK(walk.count(ChunkState::kTcache) == 800);
}

TEST_CASE("a chunk on two lists is told") {
  ListedHeap it(36, ChunkState::kTcache, 5);
  const Address chunk = it.listed[3];
  it.heap.target.put_word(it.head_of_fastbin(), chunk.value());
  it.heap.target.put_word(chunk + 0x10, (chunk + 0x10).value() >> 12);
  const RecordedWalk walk(it.heap);
  CHECK(walk.has_complaint("is listed as free twice"));
}

TEST_CASE("lists and flags that contradict each other are told, and the state is unknown") {
  SUBCASE("on a list for chunks that look used, but free by its flags") {
    ListedHeap it(36, ChunkState::kFastbin, 5);
    it.heap.target.put_word(it.listed[2] + 0x40, 0x40);
    it.heap.target.put_word(it.listed[2] + 0x40 + 8, 0x50);
    const RecordedWalk walk(it.heap);
    CHECK(walk.has_complaint("is listed as fastbin, but its flags say it is in a bin"));
    CHECK(walk.count(ChunkState::kUnknown) == 1);
  }
  SUBCASE("unsorted, but used by its flags") {
    ListedHeap it(36, ChunkState::kUnsorted, 5);
    it.heap.target.put_word(it.listed[2] + 0x40 + 8, 0x51);
    const RecordedWalk walk(it.heap);
    CHECK(walk.has_complaint("is listed as unsorted, but its flags say it is in use"));
    CHECK(walk.count(ChunkState::kUnknown) == 1);
  }
}

TEST_CASE("a list that names the middle of a chunk is told") {
  ListedHeap it(36, ChunkState::kFastbin, 5);
  // A chunk as it should be, inside another one's contents.
  const Address inside = it.heap.expected[1].at + 0x10;
  it.heap.target.put_word(inside + 8, 0x41);
  it.heap.target.put_word(inside + 0x10, (inside + 0x10).value() >> 12);
  it.heap.target.put_word(it.link_of(4), it.protected_link(4, inside));
  const RecordedWalk walk(it.heap);
  CHECK(walk.has_complaint("where no chunk begins"));
  CHECK(walk.count(ChunkState::kFastbin) == 5);
  CHECK(walk.sink.chunks == it.heap.expected);
}

TEST_CASE("a list that names the middle of a chunk larger than a window does not hide the rest") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  SyntheticArena& main = heap.brk_arena(1 << 12);
  heap.thread(main, 1);
  const Address big = main.add(8 << 20, ChunkState::kUsed);
  const Address first = main.add(0x40, ChunkState::kFastbin);
  for (unsigned i = 0; i < 10; ++i) {
    main.add(0x50, ChunkState::kUsed);
    main.add(0x40, ChunkState::kFastbin);
  }
  main.top(heap.heap_begin() + (1 << 12) * kPage - main.cursor());
  main.system_mem = (1 << 12) * kPage;
  heap.finish();
  const Address inside = big + (4 << 20);
  heap.target.put_word(inside + 8, 0x41);
  heap.target.put_word(inside + 0x10, first.value() ^ (inside + 0x10).value() >> 12);
  heap.target.put_word(main.state() + heap.layout.state.fastbins + 2 * 8, inside.value());
  const RecordedWalk walk(heap);
  CHECK(walk.model.corruptions.size() == 1);
  CHECK(walk.has_complaint("where no chunk begins"));
  CHECK(walk.sink.chunks == heap.expected);
}

TEST_CASE("tcaches are found among the chunks where threads have no registers") {
  for (const int minor : {28, 31, 36, 42, 43}) {
    CAPTURE(minor);
    SyntheticHeap heap(Machine::kX86_64, minor);
    SyntheticArena& main = heap.brk_arena(64);
    heap.thread(main, 1, false);
    for (unsigned i = 0; i < 6; ++i) {
      main.add(0x30 + i * 0x10, ChunkState::kTcache);
      main.add(0x90, ChunkState::kUsed);
    }
    // Chunks of a tcache's size that are none: with nothing in them, and with other things.
    const uint64_t size = heap.layout.tcache_chunk_size();
    main.add(size, ChunkState::kUsed);
    const Address other = main.add(size + 0x10, ChunkState::kUsed);
    for (uint64_t i = 0x10; i + 8 < size; i += 8) {
      heap.target.put_word(other + i, main.cursor().value() + i);
    }
    // One that has everything but the sizes: its one list begins with a chunk of another bin.
    const Address forged = main.add(size, ChunkState::kUsed);
    const auto& tcache = heap.layout.tcache;
    for (unsigned bin = 0; bin < tcache.bins; ++bin) {
      const uint64_t count = bin == 9 ? 1 : 0;
      const uint64_t stored = tcache.counts_down ? heap.tcache_count - count : count;
      heap.target.put_bytes(forged + 0x10 + bin * tcache.count_size,
                            std::as_bytes(std::span(&stored, 1)).first(tcache.count_size));
      heap.target.put_word(forged + 0x10 + tcache.entries + bin * 8,
                           bin == 9 ? forged.value() + 0x10 : 0);
    }
    main.top(heap.heap_begin() + 64 * kPage - main.cursor());
    main.system_mem = 64 * kPage;
    heap.finish();
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "");
    CHECK(walk.sink.chunks == heap.expected);
    REQUIRE(walk.model.thread_caches.size() == 1);
    CHECK(walk.model.thread_caches[0].tid == 0);
    CHECK(walk.model.thread_caches[0].chunks == 6);
    CHECK(walk.model.thread_caches[0].arena == 0);
  }
}
