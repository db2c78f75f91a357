#include "heap/discovery/malloc_counters.h"

#include <doctest/doctest.h>

#include "tests/unit/heap/synthetic_heap.h"

using namespace heapsnap;

namespace {

constexpr uint64_t kMapped = 1ULL << 30;

// A main arena, two of threads, and two mmapped chunks.
struct CountedHeap {
  SyntheticHeap heap;

  explicit CountedHeap(int minor, Machine machine = Machine::kX86_64) : heap(machine, minor) {
    heap.brk_arena().add(0x40, ChunkState::kUsed);
    heap.main().system_mem = 0x40000;
    heap.thread_arena(heap.heaps_begin(), 33);
    heap.thread_arena(heap.heaps_begin() + heap.layout.heap_max_size, 8);
    heap.finish();
    put_mmaps(2, 0x60000);
  }
  void put_mmaps(uint32_t count, uint64_t bytes) {
    const auto& par = heap.layout.par;
    const uint32_t most = 65536;
    heap.target.put_bytes(heap.par() + par.n_mmaps, std::as_bytes(std::span(&count, 1)));
    heap.target.put_bytes(heap.par() + par.max_n_mmaps, std::as_bytes(std::span(&count, 1)));
    heap.target.put_bytes(heap.par() + par.n_mmaps_max, std::as_bytes(std::span(&most, 1)));
    heap.target.put_word(heap.par() + par.mmapped_mem, bytes);
  }
  Address second_arena() { return heap.heaps_begin() + heap.layout.heap_info.total; }
  std::optional<MallocCounters> read(uint64_t mapped = kMapped) {
    const LocatedMalloc located[] = {heap.located()};
    return read_malloc_counters(heap.target.memory(), located, mapped);
  }
};

}  // namespace

TEST_CASE("the counters are the sums over all arenas and mp_, in every layout") {
  for (const Machine machine : {Machine::kX86_64, Machine::kI386}) {
    for (const int minor : {17, 23, 31, 36, 43}) {
      CAPTURE(minor);
      CountedHeap counted(minor, machine);
      const auto counters = counted.read();
      REQUIRE(counters);
      CHECK(counters->arenas == 3);
      CHECK(counters->arena_bytes == 0x40000 + (33 + 8) * kPage);
      CHECK(counters->mmapped_chunks == 2);
      CHECK(counters->mmapped_bytes == 0x60000);
      CHECK(counters->bytes() == counters->arena_bytes + 0x60000);
    }
  }
}

TEST_CASE("each arena is given with its bytes and its top chunk, in the order of the ring") {
  for (const Machine machine : {Machine::kX86_64, Machine::kI386}) {
    CountedHeap counted(36, machine);
    const LocatedMalloc located[] = {counted.heap.located()};
    std::vector<ArenaCounters> arenas;
    const auto sums = read_malloc_counters(counted.heap.target.memory(), located, kMapped, &arenas);
    REQUIRE(sums);
    REQUIRE(arenas.size() == sums->arenas);
    CHECK(arenas[0].is_main);
    CHECK(arenas[0].bytes == 0x40000);
    uint64_t bytes = 0;
    for (size_t i = 0; i < arenas.size(); ++i) {
      bytes += arenas[i].bytes;
      CHECK(arenas[i].is_main == (i == 0));
      CHECK(arenas[i].top_bytes <= arenas[i].bytes);
    }
    CHECK(bytes == sums->arena_bytes);
    // A top chunk larger than its arena is none; a ring that does not close has no arenas.
    const Address second = counted.second_arena();
    counted.heap.target.put_word(second + counted.heap.layout.state.top, second.value());
    counted.heap.target.put_word(second + counted.heap.layout.word, uint64_t{1} << 30);
    arenas.clear();
    read_malloc_counters(counted.heap.target.memory(), located, kMapped, &arenas);
    for (const ArenaCounters& arena : arenas) {
      if (arena.address == second) CHECK(arena.top_bytes == 0);
    }
    counted.heap.target.put_word(second + counted.heap.layout.state.next, second.value());
    CHECK(!read_malloc_counters(counted.heap.target.memory(), located, kMapped, &arenas));
    CHECK(arenas.empty());
  }
}

TEST_CASE("several mallocs are added up, and one that cannot be read spoils the sum") {
  CountedHeap counted(36);
  LocatedMalloc both[] = {counted.heap.located(), counted.heap.located()};
  const auto twice = read_malloc_counters(counted.heap.target.memory(), both, kMapped);
  REQUIRE(twice);
  CHECK(twice->arenas == 6);
  CHECK(twice->mmapped_bytes == 2 * 0x60000);
  both[1].instance.malloc_par = Address();
  CHECK_FALSE(read_malloc_counters(counted.heap.target.memory(), both, kMapped));
  CHECK_FALSE(read_malloc_counters(counted.heap.target.memory(), {}, kMapped));
}

TEST_CASE("what cannot be true is refused") {
  CountedHeap counted(36);
  const auto& state = counted.heap.layout.state;
  SparseTarget& target = counted.heap.target;
  const Address arena = counted.second_arena();
  SUBCASE("more than is mapped") {
    const uint64_t bytes = counted.read().value().bytes();
    CHECK(counted.read(bytes));
    CHECK_FALSE(counted.read(bytes / 3));
    target.put_word(arena + state.system_mem, ~0ULL);
    target.put_word(arena + state.max_system_mem, ~0ULL);
    CHECK_FALSE(counted.read());
  }
  SUBCASE("an arena larger than it ever was") {
    target.put_word(arena + state.max_system_mem, 0x1000);
    CHECK_FALSE(counted.read());
  }
  SUBCASE("a ring that leads out of the arenas") {
    target.put_word(arena + state.next, counted.heap.heap_begin().value());
    CHECK_FALSE(counted.read());
  }
  SUBCASE("a ring that leads into nothing") {
    target.put_word(arena + state.next, 0);
    CHECK_FALSE(counted.read());
    target.put_word(arena + state.next, 0x1000);
    CHECK_FALSE(counted.read());
  }
  SUBCASE("a ring that never comes back to main_arena") {
    target.put_word(arena + state.next, arena.value());
    CHECK_FALSE(counted.read());
  }
  SUBCASE("an arena that its heap does not name") {
    target.put_word(counted.heap.heaps_begin() + counted.heap.layout.heap_info.ar_ptr,
                    (arena + 16).value());
    CHECK_FALSE(counted.read());
  }
  SUBCASE("mmapped bytes without a chunk") {
    counted.put_mmaps(0, 0x1000);
    CHECK_FALSE(counted.read());
  }
}
