// Where chunks lie: odd beginnings, foreign sbrk calls, mappings instead of brk, heaps of other
// sizes.
#include <doctest/doctest.h>

#include "tests/unit/heap/recorded_walk.h"

using namespace heapsnap;

namespace {

void fill(SyntheticArena& arena, unsigned chunks, uint64_t step = 16) {
  for (unsigned i = 0; i < chunks; ++i) {
    arena.add(0x30 + i % 5 * step, i % 7 == 3 ? ChunkState::kUnsorted : ChunkState::kUsed);
  }
  arena.add(0x40, ChunkState::kUsed);
}

// Ends a segment at `end` as sysmalloc() does: the old top is freed, and two posts close it.
void close_segment(const SyntheticHeap& heap, SyntheticArena& arena, Address end) {
  const Address fence =
      heap.format.align_up(end - 2 * heap.format.header) == end - 2 * heap.format.header
          ? end - 2 * heap.format.header
          : heap.format.align_up(end - 2 * heap.format.header) - heap.format.alignment;
  arena.add(fence - arena.cursor(), ChunkState::kUnsorted);
  arena.fence();
}

void end_with_top(SyntheticArena& arena, Address end) {
  arena.top(end - arena.cursor());
}

// A segment of the main arena in a mapping of its own, which is `size` at `begin`.
void mapped_segment(SyntheticHeap& heap, Address begin, uint64_t size, bool has_top) {
  SyntheticArena& main = heap.main();
  main.go_to(heap.format.align_up(begin));
  fill(main, 50);
  if (has_top) {
    end_with_top(main, begin + size);
  } else {
    close_segment(heap, main, begin + size);
  }
  main.system_mem += size;
  main.is_noncontiguous = true;
}

void check_all_found(SyntheticHeap& heap) {
  heap.finish();
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  check_shape(walk);
  std::sort(heap.expected.begin(), heap.expected.end(),
            [](const ExpectedChunk& a, const ExpectedChunk& b) { return a.at < b.at; });
  CHECK(walk.sink.chunks == heap.expected);
  for (const Arena& arena : walk.model.arenas) CHECK(arena.walked == arena.system_mem);
}

constexpr Machine kMachines[] = {Machine::kX86_64, Machine::kI386};

}  // namespace

TEST_CASE("sbrk_base may be odd: the first chunk is the next aligned place") {
  for (const Machine machine : kMachines) {
    for (const uint64_t odd : {1, 9, 0x2b, 0x158}) {
      CAPTURE(odd);
      SyntheticHeap heap(machine, 31);
      SyntheticArena& main = heap.brk_arena(16);
      heap.sbrk_base = heap.heap_begin() + odd;
      main.go_to(heap.format.align_up(heap.sbrk_base));
      fill(main, 100);
      end_with_top(main, heap.heap_begin() + 16 * kPage);
      main.system_mem = 16 * kPage - odd;
      check_all_found(heap);
    }
  }
}

TEST_CASE("foreign sbrk calls leave fences and holes, in which any bytes may lie") {
  for (const Machine machine : kMachines) {
    for (const uint64_t hole : {uint64_t{0}, uint64_t{0x1000}, uint64_t{0x12358}}) {
      for (const unsigned posts : {0U, 1U}) {
        CAPTURE(hole);
        SyntheticHeap heap(machine, 36);
        SyntheticArena& main = heap.brk_arena(64);
        fill(main, 100);
        const Address end = heap.heap_begin() + 10 * kPage;
        if (posts == 0) {
          close_segment(heap, main, end);
        } else {
          const Address fence = heap.format.align_up(end - 64);
          main.add(fence - main.cursor(), ChunkState::kUsed);
          main.fence(1);
        }
        for (uint64_t i = 0; i + 64 < hole; i += 40) {
          heap.target.put_word(end + i, i % 0x91);  // looks like sizes, leads nowhere
        }
        main.go_to(heap.format.align_up(end + hole));
        fill(main, 200);
        end_with_top(main, heap.heap_begin() + 64 * kPage);
        main.system_mem = 64 * kPage;
        check_all_found(heap);
      }
    }
  }
}

TEST_CASE("behind a foreign sbrk call, top is the whole segment once all its chunks are free") {
  for (const Machine machine : kMachines) {
    for (const uint64_t hole : {uint64_t{0x40}, uint64_t{0x1000}, uint64_t{0x12358}}) {
      CAPTURE(hole);
      SyntheticHeap heap(machine, 36);
      SyntheticArena& main = heap.brk_arena(64);
      fill(main, 100);
      const Address end = heap.heap_begin() + 10 * kPage;
      close_segment(heap, main, end);
      for (uint64_t i = 0; i + 64 < hole; i += 40) {
        heap.target.put_word(end + i, i % 0x91);
      }
      const Address begin = heap.format.align_up(end + hole);
      main.go_to(begin);
      end_with_top(main, heap.heap_begin() + 64 * kPage);
      main.system_mem = 64 * kPage;
      check_all_found(heap);

      // It says that the chunk before it is free, but there is none.
      const Address field = begin + heap.format.word;
      heap.target.put_word(field, heap.heap_begin() + 64 * kPage - begin);
      CHECK(RecordedWalk(heap).has_complaint("no chunks were found between the fencepost and top"));
    }
  }
}

TEST_CASE("the first fencepost may say that the chunk before it is free or in use") {
  for (const ChunkState last : {ChunkState::kUsed, ChunkState::kUnsorted}) {
    SyntheticHeap heap(Machine::kX86_64, 36);
    SyntheticArena& main = heap.brk_arena(64);
    fill(main, 10);
    main.add(0x60, last);
    main.fence();
    main.go_to(heap.heap_begin() + 20 * kPage + 0x30);
    fill(main, 10);
    end_with_top(main, heap.heap_begin() + 64 * kPage);
    main.system_mem = 64 * kPage;
    check_all_found(heap);
  }
}

TEST_CASE(
    "what leads into a segment's chain from a hole is no first chunk if it says free before it") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  SyntheticArena& main = heap.brk_arena(64);
  fill(main, 10);
  close_segment(heap, main, heap.heap_begin() + 8 * kPage);
  const Address begin = heap.heap_begin() + 9 * kPage;
  heap.target.put_word(begin - 0x40 + 8, 0x40);
  main.go_to(begin);
  fill(main, 10);
  end_with_top(main, heap.heap_begin() + 64 * kPage);
  main.system_mem = 64 * kPage;
  check_all_found(heap);
}

TEST_CASE("many holes") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  SyntheticArena& main = heap.brk_arena(400);
  for (unsigned i = 0; i < 19; ++i) {
    fill(main, 20 + i);
    main.add(0x80, ChunkState::kUnsorted);
    main.fence();
    main.go_to(main.cursor() + 0x100 * i + i * 16);
  }
  fill(main, 10);
  end_with_top(main, heap.heap_begin() + 400 * kPage);
  main.system_mem = 400 * kPage;
  check_all_found(heap);
}

TEST_CASE("mapped segments are found wherever they are, by the arena's counters") {
  for (const Machine machine : kMachines) {
    SyntheticHeap heap(machine, 36);
    const Address base = machine == Machine::kI386 ? Address(0xf6000000) : Address(0x7f4000000000);
    SyntheticArena& main = heap.brk_arena(16);
    fill(main, 30);
    close_segment(heap, main, heap.heap_begin() + 16 * kPage);
    main.system_mem = 16 * kPage;

    // One line: other memory, a segment, one right behind it, other memory.
    heap.target.map(base, 0x400000);
    mapped_segment(heap, base + 0x10000, 0x100000, false);
    mapped_segment(heap, base + 0x110000, 0x23000, false);
    for (uint64_t i = 0; i < 0x10; ++i) heap.target.put_word(base + i * kPage + 4 * i, 0x31);
    // A line of its own, one that begins with the segment, and the one with top.
    heap.target.map(base + 0x500000, 0x100000);
    mapped_segment(heap, base + 0x500000, 0x100000, false);
    heap.target.map(base + 0x700000, 0x300000);
    mapped_segment(heap, base + 0x700000, 0x100000, false);
    heap.target.map(base + 0xb00000, 0x200000);
    mapped_segment(heap, base + 0xb10000, 0x100000, true);
    check_all_found(heap);
  }
}

TEST_CASE("a main arena without any brk: sbrk_base is its first mapping") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  const Address base(0x7f4000000000);
  heap.target.map(base, 0x200000);
  mapped_segment(heap, base + 0x100000, 0x100000, false);
  mapped_segment(heap, base, 0x100000, true);
  heap.sbrk_base = base + 0x100000;
  check_all_found(heap);
}

TEST_CASE("a main arena on huge pages") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  const Address base(0x7f4000000000);
  heap.target.map("7f4000000000-7f4000200000 rw-p 00000000 00:0f 77 /anon_hugepage (deleted)");
  mapped_segment(heap, base, 0x200000, true);
  heap.sbrk_base = base;
  check_all_found(heap);
}

TEST_CASE("chains of chunks that the counters do not include are not taken for mapped segments") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  const Address base(0x7f4000000000);
  heap.target.map(base, 0x200000);
  mapped_segment(heap, base, 0x100000, true);
  heap.sbrk_base = base;
  // An image of another heap, in a larger mapping.
  const auto expected = heap.expected;
  SyntheticHeap image(Machine::kX86_64, 36);
  heap.target.map(base + 0x10000000, 0x800000);
  for (uint64_t i = 0; i < 0x100000; i += 8) {
    heap.target.put_word(base + 0x10000000 + i, heap.target.word(base + i));
  }
  heap.target.put_word(base + 0x10000000 + 0x100000 - 0x20 + 8, 0x10);
  heap.target.put_word(base + 0x10000000 + 0x100000 - 0x10 + 8, 0x11);
  heap.expected = expected;
  check_all_found(heap);
}

TEST_CASE("holes of before and after brk was given up are told apart by system_mem") {
  for (const bool first_counts : {true, false}) {
    SyntheticHeap heap(Machine::kX86_64, 36);
    SyntheticArena& main = heap.brk_arena(64);
    fill(main, 20);
    close_segment(heap, main, heap.heap_begin() + 8 * kPage);
    main.go_to(heap.heap_begin() + 10 * kPage);
    fill(main, 20);
    close_segment(heap, main, heap.heap_begin() + 20 * kPage);
    main.go_to(heap.heap_begin() + 23 * kPage);
    fill(main, 20);
    end_with_top(main, heap.heap_begin() + 64 * kPage);
    main.system_mem = (64 - 3 - (first_counts ? 0 : 2)) * kPage;
    const Address base(0x7f4000000000);
    heap.target.map(base, 0x100000);
    main.go_to(base);
    fill(main, 20);
    close_segment(heap, main, base + 0x100000);
    main.system_mem += 0x100000;
    main.is_noncontiguous = true;
    check_all_found(heap);
  }
}

TEST_CASE("in a core brk has no name: it begins inside a page or soon after the executable") {
  for (const uint64_t odd : {0x0, 0xd40}) {
    CAPTURE(odd);
    SyntheticHeap heap(Machine::kX86_64, 36);
    SyntheticArena& main = heap.main();
    heap.target.map("555555554000-555555556000 r-xp 00000000 08:01 42 /usr/bin/program");
    heap.target.map(heap.heap_begin(), 16 * kPage);
    heap.sbrk_base = heap.heap_begin() + odd;
    main.go_to(heap.sbrk_base);
    fill(main, 20);
    close_segment(heap, main, heap.heap_begin() + 8 * kPage);
    main.go_to(heap.heap_begin() + 10 * kPage + 0x120);  // after a foreign sbrk
    fill(main, 20);
    close_segment(heap, main, heap.heap_begin() + 16 * kPage);
    main.system_mem = 16 * kPage - odd;
    heap.target.map(Address(0x7f4000000000), 0x100000);
    mapped_segment(heap, Address(0x7f4000000000), 0x100000, true);
    check_all_found(heap);
  }
}

TEST_CASE("holes stay counted when no number of them makes the sums match") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  SyntheticArena& main = heap.brk_arena(64);
  fill(main, 20);
  close_segment(heap, main, heap.heap_begin() + 8 * kPage);
  main.go_to(heap.heap_begin() + 10 * kPage);
  fill(main, 20);
  end_with_top(main, heap.heap_begin() + 64 * kPage);
  main.system_mem = 64 * kPage - 16;
  main.is_noncontiguous = true;
  heap.finish();
  const RecordedWalk walk(heap);
  CHECK(walk.model.corruptions.size() == 1);
  CHECK(walk.has_complaint("accounts for 262144 bytes"));
  CHECK(walk.has_complaint("system_mem is 262128"));
  REQUIRE(walk.model.segments.size() == 2);
  CHECK(walk.model.segments[1].system_bytes == 56 * kPage);
}

TEST_CASE("without mp_ the main arena begins in [heap]") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  SyntheticArena& main = heap.brk_arena(16);
  main.go_to(heap.heap_begin() + 0x2a0);  // ld.so took something first
  fill(main, 100);
  end_with_top(main, heap.heap_begin() + 16 * kPage);
  main.system_mem = 16 * kPage - 0x2a0;
  heap.finish();
  LocatedMalloc located = heap.located();
  located.instance.malloc_par = Address();
  const RecordedWalk walk(heap.target, {located});
  CHECK(complaints(walk) == "");
  CHECK(walk.sink.chunks == heap.expected);
}

TEST_CASE("where sbrk_base leads nowhere, the main arena begins in [heap]") {
  for (const uint64_t base : {uint64_t{0x10}, uint64_t{0x7fff12345678}, ~uint64_t{0}}) {
    CAPTURE(base);
    SyntheticHeap heap(Machine::kX86_64, 36);
    SyntheticArena& main = heap.brk_arena(16);
    fill(main, 100);
    end_with_top(main, heap.heap_begin() + 16 * kPage);
    main.system_mem = 16 * kPage;
    heap.sbrk_base = Address(base);
    heap.finish();
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "mp_.sbrk_base is not in a writable mapping\n");
    CHECK(walk.sink.chunks == heap.expected);
  }
}

TEST_CASE("thread heaps of four huge pages are found by mp_.hp_pagesize") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  heap.layout.heap_max_size = 8 << 20;
  heap.brk_arena(4);
  heap.main().top(4 * kPage);
  heap.main().system_mem = 4 * kPage;
  SyntheticArena& arena = heap.thread_arena(Address(0x7f1000800000), 16);
  fill(arena, 20);
  end_with_top(arena, Address(0x7f1000800000) + 16 * kPage);
  heap.target.put_word(heap.par() + heap.layout.par.hp_pagesize, 2 << 20);
  heap.finish();
  LocatedMalloc located = heap.located();
  located.layout.heap_max_size = 64 << 20;  // what the table says
  const RecordedWalk walk(heap.target, {located});
  CHECK(complaints(walk) == "");
  CHECK(walk.sink.chunks == heap.expected);
}

TEST_CASE("a thread heap's old top too small for a post becomes one as a whole") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  heap.brk_arena(4);
  heap.main().top(4 * kPage);
  heap.main().system_mem = 4 * kPage;
  const Address begin = heap.heaps_begin();
  SyntheticArena& arena = heap.thread_arena(begin, 4);
  const Address end = begin + 4 * kPage;
  arena.add(end - 0x30 - arena.cursor(), ChunkState::kUsed);
  arena.add(0x20, ChunkState::kUsed);  // old_size + CHUNK_HDR_SZ
  heap.expected.back().state = ChunkState::kFence;
  heap.target.put_word(end - 0x10 + 8, 1);
  heap.expected.push_back({end - 0x10, 0x10, ChunkState::kFence});
  heap.more_heap(arena, begin + (64 << 20), begin, 4);
  arena.top(4 * kPage - 0x30);
  check_all_found(heap);
}

TEST_CASE("damaged links between heaps and arenas are bridged by a search") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  heap.brk_arena(4);
  heap.main().top(4 * kPage);
  heap.main().system_mem = 4 * kPage;
  const Address begin = heap.heaps_begin();
  constexpr uint64_t kStep = 64 << 20;
  for (unsigned i = 0; i < 3; ++i) {
    SyntheticArena& arena = heap.thread_arena(begin + 2 * i * kStep, 4);
    fill(arena, 10);
    const Address end = begin + 2 * i * kStep + 4 * kPage;
    arena.add(end - 0x20 - arena.cursor(), ChunkState::kUnsorted);
    arena.heap_fence(end);
    heap.more_heap(arena, begin + (2 * i + 1) * kStep, begin + 2 * i * kStep, 4);
    fill(arena, 10);
    arena.top(begin + (2 * i + 1) * kStep + 4 * kPage - arena.cursor());
  }
  heap.target.map(begin + 1000 * kStep, 10'000 * kStep);  // reserved, never touched
  heap.finish();
  const auto& info = heap.layout.heap_info;
  SUBCASE("the ring of arenas leads to nowhere") {
    heap.target.put_word(heap.main().state() + heap.layout.state.next, 0x1234560);
  }
  SUBCASE("the ring of arenas is short") {
    const Address second = begin + 2 * kStep + info.total;
    heap.target.put_word(second + heap.layout.state.next, second.value());
  }
  SUBCASE("a heap's link leads to nowhere") {
    heap.target.put_word(begin + kStep + info.prev, 0xdead0000);
  }
  SUBCASE("a heap says that it is the arena's first, and is not") {
    heap.target.put_word(begin + kStep + info.prev, 0);
  }
  SUBCASE("a heap links to itself") {
    heap.target.put_word(begin + kStep + info.prev, (begin + kStep).value());
  }
  const RecordedWalk walk(heap);
  CHECK(walk.model.corruptions.size() == 1);
  CHECK(walk.sink.chunks == heap.expected);
  CHECK(walk.model.arenas.size() == 4);
  CHECK(heap.target.reads() < 1000);
}

TEST_CASE("arenas that a ring of others leaves out are found by the threads that use them") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  SyntheticArena& main = heap.brk_arena(4);
  heap.thread(main, 1);
  end_with_top(main, heap.heap_begin() + 4 * kPage);
  main.system_mem = 4 * kPage;
  constexpr uint64_t kStep = 64 << 20;
  std::vector<Address> states;
  for (unsigned i = 0; i < 3; ++i) {
    const Address begin = heap.heaps_begin() + i * kStep;
    SyntheticArena& arena = heap.thread_arena(begin, 4);
    states.push_back(arena.state());
    if (i != 1) heap.thread(arena, 2 + static_cast<int>(i));  // the thread of one has ended
    fill(arena, 10);
    end_with_top(arena, begin + 4 * kPage);
  }
  heap.finish();
  CHECK(complaints(RecordedWalk(heap)) == "");
  const uint64_t next = heap.layout.state.next;
  SUBCASE("the main arena is alone") {
    heap.target.put_word(main.state() + next, main.state().value());
  }
  SUBCASE("the main arena knows of no other") {
    heap.target.put_word(main.state() + next, 0);
  }
  SUBCASE("the ring passes one by") {
    heap.target.put_word(main.state() + next, states.back().value());
  }
  const RecordedWalk walk(heap);
  CHECK(walk.model.corruptions.size() == 1);
  CHECK(walk.has_complaint("the list of arenas does not contain the one at"));
  CHECK(walk.model.arenas.size() == 4);
  CHECK(walk.model.thread_caches.size() == 3);
  CHECK(walk.sink.chunks == heap.expected);
}

TEST_CASE("thread heaps are searched for once, however many arenas lack some") {
  constexpr uint64_t kStep = 64 << 20;
  const auto reads_with = [](unsigned arenas) {
    SyntheticHeap heap(Machine::kX86_64, 36);
    heap.brk_arena(4);
    heap.main().top(4 * kPage);
    heap.main().system_mem = 4 * kPage;
    for (unsigned i = 0; i < arenas; ++i) {
      const Address begin = heap.heaps_begin() + i * kStep;
      SyntheticArena& arena = heap.thread_arena(begin, 4);
      fill(arena, 10);
      arena.top(begin + 4 * kPage - arena.cursor());
      arena.system_mem += kPage;  // in no heap
    }
    // As a core lists it.
    const Address listed = heap.heaps_begin() + 1000 * kStep;
    heap.target.map(listed, 10'000 * kStep);
    heap.target.make_unreadable({listed, listed + 10'000 * kStep});
    heap.target.know_holes();
    heap.finish();
    RecordingSink sink;
    const HeapModel model = walk_heaps(heap.target, {heap.located()}, sink);
    CHECK(model.arenas.size() == arenas + 1);
    return heap.target.reads();
  };
  const uint64_t few = reads_with(5);
  const uint64_t many = reads_with(50);
  CHECK(few < 1000);
  CHECK(many < 10 * few + 1000);
}

TEST_CASE("top outside of every heap ends the heap where its chunks end") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  heap.brk_arena(4);
  heap.main().top(4 * kPage);
  heap.main().system_mem = 4 * kPage;
  SyntheticArena& arena = heap.thread_arena(heap.heaps_begin(), 4);
  fill(arena, 10);
  arena.top(heap.heaps_begin() + 4 * kPage - arena.cursor());
  heap.finish();
  heap.target.put_word(arena.state() + heap.layout.state.top, 0x10);
  const RecordedWalk walk(heap);
  CHECK(walk.has_complaint("top is not in a heap of this arena"));
  CHECK(walk.has_complaint("without top or a fencepost"));
  heap.expected.back().state = ChunkState::kUnknown;
  CHECK(walk.sink.chunks == heap.expected);
}
