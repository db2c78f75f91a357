// Sound heaps of every layout: each chunk is found, with its size and state, and the sums match
// malloc's counters.
#include "heap/walk/heap_walker.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/unit/heap/recorded_walk.h"

using namespace heapsnap;

namespace {

struct Variant {
  Machine machine;
  int minor;
};
constexpr Variant kVariants[] = {
    {Machine::kX86_64, 17}, {Machine::kX86_64, 23}, {Machine::kX86_64, 31},  {Machine::kX86_64, 36},
    {Machine::kX86_64, 42}, {Machine::kX86_64, 43}, {Machine::kAarch64, 36}, {Machine::kI386, 23},
    {Machine::kI386, 25},   {Machine::kI386, 31},   {Machine::kI386, 36},    {Machine::kI386, 43},
};

// Any state that chunks of this size take in this version, in turn.
ChunkState state_for(const SyntheticHeap& heap, uint64_t size, unsigned turn, ChunkState before) {
  const bool was_free = before == ChunkState::kUnsorted || before == ChunkState::kSmallbin ||
                        before == ChunkState::kLargebin;
  switch (turn % 7) {
    case 0:
      if (heap.layout.tcache.exists && size < heap.format.min_large_size) {
        return ChunkState::kTcache;
      }
      break;
    case 1:
      if (size < (heap.layout.state.fastbin_count + 2) * heap.format.header) {
        return ChunkState::kFastbin;
      }
      break;
    case 2:
      if (!was_free) return ChunkState::kUnsorted;
      break;
    case 3:
      if (!was_free) {
        return size < heap.format.min_large_size ? ChunkState::kSmallbin : ChunkState::kLargebin;
      }
      break;
    default: break;
  }
  return ChunkState::kUsed;
}

void fill(SyntheticHeap& heap, SyntheticArena& arena, unsigned chunks, unsigned seed) {
  std::mt19937 random(seed);
  ChunkState before = ChunkState::kUsed;
  for (unsigned i = 0; i < chunks; ++i) {
    const uint64_t size =
        heap.format.min_size + random() % (i % 16 == 0 ? 200 : 12) * heap.format.alignment;
    before = state_for(heap, size, random(), before);
    arena.add(size, before);
  }
  arena.add(heap.format.min_size, ChunkState::kUsed);
}

}  // namespace

TEST_CASE("limits of chunks by machine and version") {
  const auto format = [](Machine machine, int minor) {
    return ChunkFormat(*MallocLayout::for_version(machine, {2, minor}));
  };
  const ChunkFormat wide = format(Machine::kX86_64, 36);
  CHECK(wide.min_size == 32);
  CHECK(wide.min_large_size == 1024);
  CHECK(wide.align_up(Address(0x1001)) == Address(0x1010));
  const ChunkFormat old = format(Machine::kI386, 23);
  CHECK(old.min_size == 16);
  CHECK(old.min_large_size == 512);
  CHECK(old.align_up(Address(0x1001)) == Address(0x1008));
  const ChunkFormat narrow = format(Machine::kI386, 36);
  CHECK(narrow.min_size == 16);
  CHECK(narrow.min_large_size == 1008);
  CHECK(narrow.align_up(Address(0x1000)) == Address(0x1008));
  CHECK(!narrow.is_aligned(Address(0x1010)));
  CHECK(format(Machine::kAarch64, 36).pointer(0x0700007f12345670) == Address(0x7f12345670));
}

TEST_CASE("every chunk of a main and a thread arena is found, in every layout") {
  for (const Variant& variant : kVariants) {
    CAPTURE(static_cast<int>(variant.machine));
    CAPTURE(variant.minor);
    SyntheticHeap heap(variant.machine, variant.minor);
    heap.tcache_count = 1000;

    SyntheticArena& main = heap.brk_arena(128);
    if (heap.layout.tcache.exists) heap.thread(main, 100);
    fill(heap, main, 1000, 1);
    main.top(heap.heap_begin() + 128 * 4096 - main.cursor());
    main.system_mem = 128 * 4096;

    const uint64_t step = heap.layout.heap_max_size;
    SyntheticArena& other = heap.thread_arena(heap.heaps_begin(), 128);
    if (heap.layout.tcache.exists) heap.thread(other, 101);
    fill(heap, other, 1000, 2);
    const Address end = heap.heaps_begin() + 128 * 4096;
    // What is left of the old top before the fenceposts; on i386 8 bytes stay behind them.
    const Address fence =
        end - 2 * heap.format.header -
        (end - 2 * heap.format.header - heap.format.align_up(Address(0)).value()).value() %
            heap.format.alignment;
    other.add(fence - other.cursor(), ChunkState::kUnsorted);
    other.heap_fence(end);
    heap.more_heap(other, heap.heaps_begin() + step, heap.heaps_begin(), 32);
    fill(heap, other, 40, 3);
    other.top(heap.heaps_begin() + step + 32 * 4096 - other.cursor());
    heap.finish();

    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "");
    check_shape(walk);
    REQUIRE(walk.sink.chunks.size() == heap.expected.size());
    for (size_t i = 0; i < heap.expected.size(); ++i) {
      CHECK(walk.sink.chunks[i] == heap.expected[i]);
    }
    REQUIRE(walk.model.arenas.size() == 2);
    for (const Arena& arena : walk.model.arenas) CHECK(arena.walked == arena.system_mem);
    REQUIRE(walk.model.segments.size() == 3);
    CHECK(walk.model.segments[0].kind == SegmentKind::kBrk);
    CHECK(walk.model.segments[1].kind == SegmentKind::kThreadHeap);
    if (heap.layout.tcache.exists) {
      REQUIRE(walk.model.thread_caches.size() == 2);
      CHECK(walk.model.thread_caches[0].tid == 100);
      CHECK(walk.model.thread_caches[0].arena == 0);
      CHECK(walk.model.thread_caches[1].arena == 1);
      uint64_t cached = 0;
      for (const ThreadCache& thread : walk.model.thread_caches) cached += thread.chunks;
      CHECK(cached == walk.count(ChunkState::kTcache));
    }
  }
}

TEST_CASE("batches hold 4096 chunks at most, and chunks larger than a window are stepped over") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  SyntheticArena& main = heap.brk_arena(1 << 20);
  for (unsigned i = 0; i < 10000; ++i) main.add(0x20 + i % 8 * 0x10, ChunkState::kUsed);
  main.add(300 << 20, ChunkState::kUnsorted);
  main.add(0x20, ChunkState::kUsed);
  main.add(900 << 20, ChunkState::kUsed);
  for (unsigned i = 0; i < 10000; ++i) main.add(0x400, ChunkState::kUsed);
  main.top((4ULL << 30) - (main.cursor() - heap.heap_begin()));
  main.system_mem = 4ULL << 30;
  heap.finish();

  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  CHECK(walk.sink.chunks == heap.expected);
  // The bodies of the large chunks were neither copied nor brought in.
  CHECK(heap.target.bytes_read() < (24 << 20));
  CHECK(heap.target.costly_pages_read() == 0);
}

TEST_CASE("swapped pages are read only where a header lies in them") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  SyntheticArena& main = heap.brk_arena(64);
  const Address first = main.add(0x20, ChunkState::kUsed);
  const Address big = main.add(40 * 4096, ChunkState::kUsed);
  main.top(0x1000);
  main.system_mem = main.cursor() - heap.heap_begin();
  for (unsigned i = 0; i < 39; ++i) {
    const Address page = first.align_down(4096) + i * 4096;
    heap.target.put_word(page + (i == 0 ? 0x800 : 0), 1);
    heap.target.mark_swapped(page);
  }
  heap.idle_thread(1);
  heap.finish();
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  CHECK(walk.sink.chunks == heap.expected);
  CHECK(big == first + 0x20);
  CHECK(heap.target.costly_pages_read() == 1);
}

TEST_CASE("an arena that was never used has no chunks and no complaint") {
  SyntheticHeap heap(Machine::kX86_64, 31);
  heap.finish();
  const RecordedWalk walk(heap);
  CHECK(complaints(walk) == "");
  CHECK(walk.sink.chunks.empty());
  REQUIRE(walk.model.arenas.size() == 1);
  CHECK(walk.model.arenas[0].is_main);
  CHECK(walk.model.arenas[0].top.is_null());
}

TEST_CASE("a malloc that nobody has called has no tcaches, whatever is where theirs will be") {
  for (const bool was_called : {false, true}) {
    SyntheticHeap heap(Machine::kX86_64, 36);
    SyntheticArena& main = heap.brk_arena(2);
    heap.thread(main, 100);
    main.top(heap.heap_begin() + 0x2000 - main.cursor());
    main.system_mem = 0x2000;
    heap.finish();

    // Another C library, and the tcache of one that was loaded there before.
    const Address arena(0x7f0000600100);
    const Address tcache(0x7f0000700010);
    heap.target.map(arena.align_down(kPage), kPage);
    heap.target.map(tcache.align_down(kPage), kPage);
    heap.target.put_word(tcache - 8, heap.layout.tcache_chunk_size() | 1);
    const uint16_t one = 1;
    heap.target.put_bytes(tcache + 30 * 2, std::as_bytes(std::span(&one, 1)));
    heap.target.put_word(tcache + heap.layout.tcache.entries + 30 * 8, 0x7f00007002a0);
    heap.target.put_word(arena + heap.layout.state.attached_threads, was_called ? 0 : 1);
    LocatedMalloc other = heap.located();
    other.instance.main_arena = arena;
    other.instance.malloc_par = arena + 0xe00;  // zeros
    other.tls_offset = -0x60;
    const auto& thread = heap.target.threads().front();
    heap.target.put_word(thread.registers->thread_pointer - 0x60, tcache.value());

    const RecordedWalk walk(heap.target, {heap.located(), other});
    CAPTURE(complaints(walk));
    CHECK(walk.has_complaint("bin 30 of the tcache of thread 100") == was_called);
    CHECK(walk.model.corruptions.size() == (was_called ? 1 : 0));
    CHECK(walk.model.thread_caches.size() == (was_called ? 2 : 1));
  }
}

TEST_CASE("without mallocs there is nothing to walk") {
  SparseTarget target(Machine::kX86_64);
  const RecordedWalk walk(target, {});
  CHECK(walk.model.arenas.empty());
  CHECK(walk.sink.chunks.empty());
  CHECK(complaints(walk) == "");
}

TEST_CASE("a locked arena is told") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  SyntheticArena& main = heap.brk_arena(2);
  main.top(0x2000);
  main.system_mem = 0x2000;
  heap.finish();
  const uint32_t locked = 1;
  heap.target.put_bytes(main.state(), std::as_bytes(std::span(&locked, 1)));
  const RecordedWalk walk(heap);
  REQUIRE(walk.model.arenas.size() == 1);
  CHECK(walk.model.arenas[0].was_locked);
}

TEST_CASE("progress is told and ends at the total") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  SyntheticArena& main = heap.brk_arena(1 << 16);
  for (unsigned i = 0; i < 100; ++i) main.add(2 << 20, ChunkState::kUsed);
  main.top(0x1000);
  main.system_mem = main.cursor() - heap.heap_begin();
  heap.finish();
  std::vector<std::pair<uint64_t, uint64_t>> told;
  WalkOptions options;
  options.progress = [&](uint64_t done, uint64_t total) { told.emplace_back(done, total); };
  RecordingSink sink;
  walk_heaps(heap.target, {heap.located()}, sink, options);
  REQUIRE(!told.empty());
  for (size_t i = 1; i < told.size(); ++i) CHECK(told[i - 1].first < told[i].first);
  CHECK(told.back().first <= told.back().second);
}
