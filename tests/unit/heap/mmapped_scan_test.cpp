// Chunks in mappings of their own: where they are, where their headers went, and what only looks
// like one.
#include "heap/walk/mmapped_scan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "heap/walk/anonymous_memory.h"
#include "target/page_cache.h"
#include "tests/unit/heap/recorded_walk.h"

using namespace heapsnap;

namespace {

// A heap with a small main arena, and room for mappings.
struct MappedHeap : SyntheticHeap {
  MappedHeap(Machine machine, int minor) : SyntheticHeap(machine, minor) {
    SyntheticArena& arena = brk_arena(4);
    arena.top(heap_begin() + 4 * kPage - arena.cursor());
    arena.system_mem = 4 * kPage;
    idle_thread(1);
    finish();
  }
  Address base() const {
    return layout.machine == Machine::kI386 ? Address(0xe0000000) : Address(0x7f4000000000);
  }
  // Bytes as a program leaves them, none of them zero.
  void fill(Address from, uint64_t bytes) {
    const std::vector<std::byte> data(bytes, std::byte{0x5a});
    target.put_bytes(from, data);
  }
  std::vector<Address> sorted_expected() const {
    auto sorted = expected_mmapped;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }
};

constexpr struct {
  Machine machine;
  int minor;
} kMappedVariants[] = {{Machine::kX86_64, 31}, {Machine::kX86_64, 43}, {Machine::kI386, 23},
                       {Machine::kI386, 31},   {Machine::kI386, 43},   {Machine::kAarch64, 36}};

}  // namespace

TEST_CASE("mmapped chunks are found alone, side by side, and behind other memory") {
  for (const auto& variant : kMappedVariants) {
    CAPTURE(variant.minor);
    MappedHeap heap(variant.machine, variant.minor);
    const Address base = heap.base();
    heap.target.map(base, 0x40000);
    heap.mmapped(base, 0x40000);
    heap.target.map(base + 0x100000, 0x60000);
    heap.mmapped(base + 0x100000, 0x21000);
    heap.mmapped(base + 0x121000, 0x30000);
    heap.mmapped(base + 0x151000, 0x0f000);
    // Other memory on both sides: only a look at every page finds this one.
    heap.target.map(base + 0x200000, 0x60000);
    heap.fill(base + 0x200000, 0x20000);
    heap.mmapped(base + 0x220000, 0x20000);
    heap.fill(base + 0x240000, 0x20000);
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "");
    CHECK(walk.mmapped_headers() == heap.sorted_expected());
    const uint64_t header = heap.format.header;
    for (const MmappedChunk& chunk : walk.sink.mmapped) {
      CHECK(chunk.state == ChunkState::kMmapped);
      const uint64_t offset = chunk.chunk - chunk.mapping_begin;
      // malloc_usable_size(): up to the end of the mapping, less two words behind since 2.43, of
      // which one is the chunk's.
      const uint64_t behind = heap.layout.mmapped_size_less_header ? header / 2 : 0;
      CHECK(chunk.usable == chunk.total - offset - header - behind);
    }
  }
}

TEST_CASE("of a mapping of 40 GB that is one chunk, a page is read") {
  MappedHeap heap(Machine::kX86_64, 36);
  const uint64_t total = 40ULL << 30;
  heap.target.map(heap.base(), total);
  heap.mmapped(heap.base(), total);
  const uint64_t before = heap.target.bytes_read();
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  REQUIRE(walk.sink.mmapped.size() == 1);
  CHECK(walk.sink.mmapped[0].total == total);
  CHECK(heap.target.bytes_read() - before < 100000);
  CHECK(heap.target.costly_pages_read() == 0);
}

TEST_CASE("headers that memalign moved are found at every alignment") {
  for (const auto& variant : kMappedVariants) {
    for (uint64_t alignment = 32; alignment <= 4 << 20; alignment *= 2) {
      for (const bool is_perturbed : {false, true}) {
        if (is_perturbed && alignment > 64 << 10) continue;
        CAPTURE(variant.minor);
        CAPTURE(alignment);
        MappedHeap heap(variant.machine, variant.minor);
        const uint64_t total = (alignment + 0x42000 + kPage - 1) / kPage * kPage;
        const Address begin = heap.base() + 0x7000;  // an odd page, as mappings go
        heap.target.map(begin, total);
        const uint64_t first = heap.format.align_up(begin) - begin;
        if (is_perturbed) heap.fill(begin + first + heap.format.header, alignment);
        heap.put_mmapped_header(begin, total, first);
        Address memory = (begin + first + heap.format.header).align_up(alignment);
        if (memory - begin < first + heap.format.header + heap.format.min_size) {
          memory += alignment;
        }
        const Address chunk = heap.mmapped(begin, total, memory - heap.format.header - begin);
        heap.fill(memory, 100);
        const RecordedWalk walk(heap);
        CHECK(complaints(walk) == "");
        CHECK(walk.mmapped_headers() == std::vector<Address>{chunk});
      }
    }
  }
}

TEST_CASE("after mremap the first header is stale, larger or smaller") {
  for (const uint64_t stale : {0x30000ULL, 0x400000ULL}) {
    for (const uint64_t alignment : {0x100ULL, 0x8000ULL}) {
      CAPTURE(stale);
      CAPTURE(alignment);
      MappedHeap heap(Machine::kX86_64, 36);
      const Address begin = heap.base() + 0x3000;  // no longer what the alignment asks for
      heap.target.map(begin, 0x80000);
      heap.put_mmapped_header(begin, stale, 0);
      heap.mmapped(begin, 0x50000, alignment - 0x10);
      heap.mmapped(begin + 0x50000, 0x30000);
      const RecordedWalk walk(heap);
      CHECK(complaints(walk) == "");
      CHECK(walk.mmapped_headers() == heap.expected_mmapped);
    }
  }
}

TEST_CASE("what a program writes where a moved header could be is no header") {
  MappedHeap heap(Machine::kX86_64, 36);
  const Address begin = heap.base();
  heap.target.map(begin, 0x50000);
  heap.mmapped(begin, 0x50000);
  SUBCASE("the distance, with a size that fits nothing") {
    heap.target.put_word(begin + 0x30, 0x30);
    heap.target.put_word(begin + 0x38, 0x1232);
  }
  SUBCASE("a header at a place where memalign puts none") {
    heap.target.put_word(begin + 0x60, 0x60);
    heap.target.put_word(begin + 0x68, 0x4ffa2);
  }
  SUBCASE("a header behind other data") {
    heap.target.put_word(begin + 0x10, 1);
    heap.target.put_word(begin + 0x30, 0x30);
    heap.target.put_word(begin + 0x38, 0x4ffd2);
  }
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  CHECK(walk.mmapped_headers() == heap.expected_mmapped);
}

TEST_CASE("planted headers inside mappings are told from real ones by edges and counters") {
  MappedHeap heap(Machine::kX86_64, 36);
  const Address base = heap.base();
  heap.target.map(base, 0x40000);
  heap.mmapped(base, 0x40000);
  // Somebody's memory with images of 50 chunks; and a real one in the midst of a third mapping.
  heap.target.map(base + 0x1000000, 0x800000);
  for (unsigned i = 0; i < 50; ++i) {
    heap.put_mmapped_header(base + 0x1001000 + i * 0x3000, 0x2000, 0);
  }
  SUBCASE("all that count are at edges") {
    heap.target.map(base + 0x3000000, 0x80000);
    heap.mmapped(base + 0x3040000, 0x40000);
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "");
    CHECK(walk.mmapped_headers() == heap.expected_mmapped);
  }
  SUBCASE("one at an edge is planted: the bytes name it") {
    heap.target.map(base + 0x3000000, 0x80000);
    heap.put_mmapped_header(base + 0x3000000, 0x13000, 0);
    heap.mmapped(base + 0x3040000, 0x40000);
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "");
    CHECK(walk.mmapped_headers() == heap.expected_mmapped);
  }
  SUBCASE("one at an edge is planted, and one that counts is in the midst") {
    heap.target.map(base + 0x200000, 0x80000);
    heap.put_mmapped_header(base + 0x200000, 0x13000, 0);
    heap.fill(base + 0x213000, 0x1000);
    heap.mmapped(base + 0x230000, 0x40000);
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "");
    CHECK(walk.mmapped_headers() == heap.expected_mmapped);
  }
  SUBCASE("a real one in the midst is told by its size") {
    heap.target.map(base + 0x3000000, 0x1000000);  // searched after the smaller one
    heap.fill(base + 0x3000000, 0x1000);
    heap.mmapped(base + 0x3020000, 0x20000);
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "");
    CHECK(walk.mmapped_headers() == heap.expected_mmapped);
    CHECK(walk.model.instances.at(0).notes.empty());
  }
  SUBCASE("a real one in the midst has their size: the doubt is told, and is no damage") {
    heap.target.map(base + 0x3000000, 0x1000000);
    heap.fill(base + 0x3000000, 0x1000);
    heap.mmapped(base + 0x3020000, 0x2000);
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "");
    CHECK(walk.sink.mmapped.size() == 2);
    REQUIRE(walk.model.instances.at(0).notes.size() == 1);
    CHECK(walk.model.instances.at(0).notes[0].find("52 places that look like mmapped chunks 2") !=
          std::string::npos);
  }
  SUBCASE("real ones in the midst lie in a row") {
    heap.target.map(base + 0x3000000, 0x1000000);
    heap.fill(base + 0x3000000, 0x1000);
    heap.mmapped(base + 0x3020000, 0x2000);
    heap.mmapped(base + 0x3022000, 0x2000);
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "");
    CHECK(walk.mmapped_headers() == heap.expected_mmapped);
    CHECK(walk.model.instances.at(0).notes.empty());
  }
  SUBCASE("more are missing than can be told") {
    heap.n_mmaps = 60;
    heap.mmapped_mem = 0x80000000;
    const RecordedWalk walk(heap);
    CHECK(walk.has_complaint("mp_ counts 60 mmapped chunks of 2147483648 bytes"));
  }
}

TEST_CASE("a planted header that takes in real ones does not hide them") {
  MappedHeap heap(Machine::kX86_64, 36);
  const Address base = heap.base();
  heap.target.map(base, 0x200000);
  heap.fill(base, 0x1000);
  SUBCASE("in the midst") {
    heap.put_mmapped_header(base + 0x2000, 0x101000, 0);
    heap.mmapped(base + 0x80000, 0x20000);
    heap.mmapped(base + 0xa0000, 0x20000);
  }
  SUBCASE("in the midst, and a lone one") {
    heap.put_mmapped_header(base + 0x2000, 0x101000, 0);
    heap.mmapped(base + 0x80000, 0x20000);
  }
  SUBCASE("up to behind an edge") {
    heap.put_mmapped_header(base + 0x2000, 0x3f0000, 0);
    heap.target.map(base + 0x200000, 0x200000, "rwxp");
    heap.mmapped(base + 0x200000, 0x200000);
  }
  SUBCASE("it is the program's own data, in a real one") {
    heap.mmapped(base + 0x2000, 0x100000);
    heap.put_mmapped_header(base + 0x3000, 0x10000, 0);
    heap.put_mmapped_header(base + 0x13000, 0x10000, 0);
  }
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  CHECK(walk.mmapped_headers() == heap.expected_mmapped);
}

TEST_CASE("around stacks") {
  MappedHeap heap(Machine::kX86_64, 36);
  const Address base = heap.base();
  heap.target.map(base, 0x100000);
  SUBCASE("a chunk is the stack of a thread") {
    heap.mmapped(base, 0x80000);
    heap.target.add_thread(2, Registers{Address(), base + 0x7e010, base + 0x7f6c0});
    heap.mmapped(base + 0x80000, 0x80000);
  }
  SUBCASE("a coroutine runs on a chunk, below the stack of its thread") {
    heap.mmapped(base, 0x40000);
    heap.mmapped(base + 0x40000, 0x40000);
    heap.fill(base + 0x80000, 0x80000);
    heap.target.add_thread(2, Registers{Address(), base + 0x20010, base + 0xff6c0});
  }
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  CHECK(walk.mmapped_headers() == heap.expected_mmapped);
}

TEST_CASE("a chunk that the program has protected") {
  MappedHeap heap(Machine::kX86_64, 36);
  const Address base = heap.base();
  heap.target.map(base, 0x40000, "r--p");
  heap.mmapped(base, 0x40000);
  heap.target.map(base + 0x40000, 0x40000);
  heap.mmapped(base + 0x40000, 0x40000);
  heap.target.map(base + 0x100000, 0x40000, "r-xp");
  heap.mmapped(base + 0x100000, 0x20000);
  heap.mmapped(base + 0x120000, 0x20000);
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  CHECK(walk.mmapped_headers() == heap.expected_mmapped);
}

TEST_CASE("where no chunk counts, memory is not searched for any") {
  MappedHeap heap(Machine::kX86_64, 36);
  const Address base = heap.base();
  heap.target.map(base, 0x4000000);
  for (uint64_t i = 0; i < 0x4000; ++i) heap.put_mmapped_header(base + i * kPage, kPage, 0);
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  CHECK(walk.sink.mmapped.empty());
  CHECK(heap.target.bytes_read() < (1 << 20));
}

TEST_CASE("counters that nothing matches are reported with both numbers") {
  MappedHeap heap(Machine::kX86_64, 36);
  heap.target.map(heap.base(), 0x40000);
  heap.mmapped(heap.base(), 0x40000);
  SUBCASE("one is missing") {
    heap.n_mmaps = 2;
    heap.mmapped_mem = 0x60000;
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) ==
          "mp_ counts 2 mmapped chunks of 393216 bytes, the search accepted 1 "
          "of 262144 bytes\n");
    CHECK(walk.sink.mmapped.size() == 1);
  }
  SUBCASE("bytes differ") {
    heap.mmapped_mem = 0x41000;
    const RecordedWalk walk(heap);
    CHECK(walk.model.corruptions.size() == 1);
    CHECK(walk.sink.mmapped.size() == 1);
  }
}

TEST_CASE("since 2.43 mmapped_mem drifts by two words at each mremap") {
  for (const int minor : {42, 43}) {
    MappedHeap heap(Machine::kX86_64, minor);
    heap.target.map(heap.base(), 0x40000);
    heap.mmapped(heap.base(), 0x40000);
    heap.mmapped_mem += 6 * 16;
    const RecordedWalk walk(heap);
    CHECK(walk.model.corruptions.empty() == (minor == 43));
    CHECK(walk.sink.mmapped.size() == 1);
  }
}

TEST_CASE("without mp_ what is at edges is taken") {
  MappedHeap heap(Machine::kX86_64, 36);
  const Address base = heap.base();
  heap.target.map(base, 0x40000);
  heap.mmapped(base, 0x40000);
  heap.target.map(base + 0x100000, 0x80000);
  heap.put_mmapped_header(base + 0x120000, 0x20000, 0);
  LocatedMalloc located = heap.located();
  located.instance.malloc_par = Address();
  const RecordedWalk walk(heap.target, {located});
  CHECK(complaints(walk) == "");
  CHECK(walk.mmapped_headers() == heap.expected_mmapped);
}

TEST_CASE(
    "a chunk may span lines of maps that differ in flags, and pages that were made unwritable") {
  MappedHeap heap(Machine::kX86_64, 36);
  const Address base = heap.base();
  heap.target.map(base, 0x10000);
  heap.target.map(base + 0x10000, 0x1000, "---p");
  heap.target.map(base + 0x11000, 0x1f000);
  heap.target.map(base + 0x30000, 0x20000, "rw-p", "[anon: glibc: malloc]");
  heap.mmapped(base, 0x40000);
  heap.mmapped(base + 0x40000, 0x10000);
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  CHECK(walk.mmapped_headers() == heap.expected_mmapped);
}

TEST_CASE("between stacks with guard pages inside one line, and on huge pages") {
  MappedHeap heap(Machine::kX86_64, 43);
  const Address base = heap.base();
  // stack | guard, stack | chunk | guard, stack: one line; the counters include the chunk.
  heap.target.map(base, 0x400000);
  heap.target.make_unreadable({base + 0x100000, base + 0x101000});
  heap.target.make_unreadable({base + 0x240000, base + 0x241000});
  heap.fill(base + 0x1ff000, 0x1000);
  heap.put_mmapped_header(base + 0x50000, 0x8000, 0);  // left behind on a stack
  heap.mmapped(base + 0x200000, 0x40000);
  heap.target.map("7f5000000000-7f5000400000 rw-p 00000000 00:0f 77 /anon_hugepage (deleted)");
  const Address huge(0x7f5000000000);
  heap.mmapped(huge, 0x400000);
  heap.target.put_word(huge, 1);  // MMAP_HP
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  CHECK(walk.mmapped_headers() == heap.expected_mmapped);
}

TEST_CASE("heaps, stacks of threads and file mappings are not searched") {
  MappedHeap heap(Machine::kX86_64, 36);
  const Address base = heap.base();
  heap.target.map("7f4000000000-7f4000100000 rw-p 00000000 08:01 5 /some/file");
  heap.put_mmapped_header(base, 0x10000, 0);
  heap.target.map(base + 0x200000, 0x100000);
  heap.put_mmapped_header(base + 0x2f0000, 0x10000, 0);  // up to the end of the line
  heap.target.add_thread(
      2, Registers{Address(), base + 0x2e0010, base + 0x2ff6c0});  // its stack ends there too
  heap.put_mmapped_header(heap.heap_begin() + 2 * kPage, 0x1000, 0);
  LocatedMalloc located = heap.located();
  located.instance.malloc_par = Address();  // no counters that would help
  const RecordedWalk walk(heap.target, {located});
  CHECK(complaints(walk) == "");
  CHECK(walk.sink.mmapped.empty());
}

TEST_CASE("mmapped chunks in a tcache are free, and still counted") {
  SyntheticHeap heap(Machine::kX86_64, 43);
  heap.tcache_count = 16;
  SyntheticArena& arena = heap.brk_arena(4);
  heap.thread(arena, 1);
  const Address base(0x7f4000000000);
  heap.target.map(base, 0x80000);
  heap.mmapped(base, 0x40000);
  const Address cached = heap.mmapped(base + 0x40000, 0x40000);
  heap.cache(cached, 70);
  arena.top(heap.heap_begin() + 4 * kPage - arena.cursor());
  arena.system_mem = 4 * kPage;
  heap.finish();
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  REQUIRE(walk.sink.mmapped.size() == 2);
  CHECK(walk.sink.mmapped[0].state == ChunkState::kMmapped);
  CHECK(walk.sink.mmapped[1].state == ChunkState::kTcache);
  CHECK(walk.model.thread_caches.at(0).chunks == 1);
}

TEST_CASE("in a core, where no page is known, the same chunks are found") {
  MappedHeap heap(Machine::kX86_64, 36);
  heap.target.forget_residency();
  const Address base = heap.base();
  heap.target.map(base, 0x440000);
  heap.fill(base, 0x20000);
  heap.mmapped(base + 0x20000, 0x20000);
  heap.put_mmapped_header(base + 0x40000, 0x400000, 0);
  heap.mmapped(base + 0x40000, 0x400000, 0x20000 - 0x10);
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  CHECK(walk.mmapped_headers() == heap.expected_mmapped);
}

// Under a sanitizer this fails where the head of such a page is read past its end.
TEST_CASE("memory of a core that does not begin at a page") {
  for (const auto& variant : kMappedVariants) {
    CAPTURE(variant.minor);
    for (const uint64_t off : {1, 7, 8, 15, 4095}) {
      MappedHeap heap(variant.machine, variant.minor);
      const Address base = heap.base() + off;
      heap.target.map(base, 0x40000);
      heap.fill(base, 0x40000);
      const RecordedWalk walk(heap);
      CHECK(walk.sink.mmapped.empty());
    }
  }
}

TEST_CASE("memory that a core lists and does not hold is not searched") {
  constexpr uint64_t kListed = 4ULL << 30;
  MappedHeap heap(Machine::kX86_64, 36);
  heap.target.forget_residency();
  const Address base = heap.base();
  heap.target.map(base, kListed);
  heap.target.make_unreadable({base + kPage, base + kListed - 0x20000});
  heap.target.know_holes();
  heap.mmapped(base + kListed - 0x20000, 0x20000);
  ++heap.n_mmaps;  // never found
  RecordingSink sink;
  walk_heaps(heap.target, {heap.located()}, sink);
  REQUIRE(sink.mmapped.size() == 1);
  CHECK(sink.mmapped[0].chunk == heap.expected_mmapped[0]);
  CHECK(heap.target.reads() < 10'000);
}

TEST_CASE(
    "where the counters never match, they are not compared after each of thousands of places") {
  MappedHeap heap(Machine::kX86_64, 36);
  const unsigned places = MmappedScan::kMostQuestions + 100;
  for (unsigned i = 0; i < places; ++i) {
    const Address begin = heap.base() + i * 0x4000ULL;
    heap.target.map(begin, 0x2000);
    heap.put_mmapped_header(begin, 0x2000, 0);
  }
  PageCache cache(heap.target.memory());
  const AnonymousMemory memory(heap.target, {});
  MmappedScan scan(heap.target, cache, memory, heap.format, false);
  unsigned asked = 0;
  SUBCASE("some are missing") {
    scan.search_pages(places + 1, [&] { return ++asked, false; });
    CHECK(asked == 0);
  }
  SUBCASE("there are too many") {
    scan.search_pages(1, [&] { return ++asked, false; });
    CHECK(asked == MmappedScan::kMostQuestions);
  }
  CHECK(scan.found().size() == places);
}
