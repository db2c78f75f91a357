// Damaged heaps, and bytes that never were a heap: what is sound is still told, and every walk
// ends.
#include <doctest/doctest.h>

#include <chrono>
#include <random>

#include "tests/unit/heap/recorded_walk.h"

using namespace heapsnap;

namespace {

// A main arena of used chunks of 0x50, of which number 3, 13, 23 ... are unsorted.
struct RegularHeap {
  SyntheticHeap heap;
  std::vector<Address> chunks;

  explicit RegularHeap(unsigned count = 1000, bool has_lists = true) : heap(Machine::kX86_64, 36) {
    SyntheticArena& main = heap.brk_arena(1 + count * 0x50 / kPage + 1);
    for (unsigned i = 0; i < count; ++i) {
      const bool is_free = has_lists && i % 10 == 3;
      chunks.push_back(main.add(0x50, is_free ? ChunkState::kUnsorted : ChunkState::kUsed));
    }
    const Address end = heap.target.address_space().find(heap.heap_begin())->range.end;
    main.top(end - main.cursor());
    main.system_mem = end - heap.heap_begin();
    heap.idle_thread(1);
    heap.finish();
  }
  void damage_size(size_t i, uint64_t value) { heap.target.put_word(chunks[i] + 8, value); }
  // The expected chunks when [first, last) became one unknown and the one before it undecided.
  std::vector<ExpectedChunk> expected_without(size_t first, size_t last) const {
    std::vector<ExpectedChunk> expected = heap.expected;
    if (first != 0) expected[first - 1].state = ChunkState::kUnknown;
    const uint64_t size = expected[last].at - expected[first].at;
    expected[first] = {expected[first].at, size, ChunkState::kUnknown};
    expected.erase(expected.begin() + static_cast<ptrdiff_t>(first) + 1,
                   expected.begin() + static_cast<ptrdiff_t>(last));
    return expected;
  }
};

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("a damaged size costs one chunk, and the walk goes on at the next") {
  for (const uint64_t value : {0ULL, 1ULL, 0x18ULL, 0x59ULL, 0x53ULL, 0x55ULL,
                               0x4141414141414141ULL, ~0ULL, 0x10000001ULL, 0x11ULL}) {
    CAPTURE(value);
    RegularHeap it;
    it.damage_size(500, value);
    const RecordedWalk walk(it.heap);
    check_shape(walk);
    CHECK(walk.sink.chunks == it.expected_without(500, 501));
    REQUIRE(walk.model.corruptions.size() == 2);
    const Corruption& damage = walk.model.corruptions[0];
    CHECK(damage.where == it.chunks[500] + 8);
    CHECK(damage.arena == 0);
    CHECK(damage.segment == 0);
    CHECK(walk.has_complaint("accounts for"));  // by the bytes of one chunk
    CHECK(walk.model.arenas[0].walked == walk.model.arenas[0].system_mem - 0x50);
  }
}

TEST_CASE("damage at either end of a heap") {
  RegularHeap it;
  SUBCASE("the first chunk") {
    it.damage_size(0, 0x7);
    const RecordedWalk walk(it.heap);
    CHECK(walk.sink.chunks == it.expected_without(0, 1));
  }
  SUBCASE("the last chunk before top") {
    it.damage_size(999, 0x7);
    const RecordedWalk walk(it.heap);
    CHECK(walk.sink.chunks == it.expected_without(999, 1000));
  }
  SUBCASE("top") {
    it.heap.target.put_word(it.heap.expected.back().at + 8, 0x12345);
    const RecordedWalk walk(it.heap);
    CHECK(walk.has_complaint("the top chunk has size"));
    CHECK(walk.sink.chunks == it.heap.expected);
  }
}

TEST_CASE("where all headers of a stretch are gone, the next that a list names is taken") {
  RegularHeap it;
  for (Address at = it.chunks[400]; at < it.chunks[450]; at += 8) {
    it.heap.target.put_word(at, 0x4242424242424242);
  }
  // The unsorted list is broken there too, and is followed from its other end.
  const RecordedWalk walk(it.heap);
  check_shape(walk);
  CHECK(walk.sink.chunks == it.expected_without(400, 450));
}

TEST_CASE("a size that leads astray is noticed where the chain breaks") {
  RegularHeap it;
  it.damage_size(500, 0x75);  // 0x70: into the midst of the next chunk, which is zero there
  it.damage_size(500, 0x71);
  const RecordedWalk walk(it.heap);
  check_shape(walk);
  CHECK(walk.has_complaint("the size field of the chunk at"));
  // The walk is back on the chain after two chunks that are unknown.
  CHECK(walk.count(ChunkState::kUnknown) == 2);
  CHECK(walk.sink.chunks.size() == it.heap.expected.size());
}

TEST_CASE("a footer that contradicts the size makes the state unknown, not the chunk") {
  RegularHeap it;
  it.heap.target.put_word(it.chunks[504], 0x60);  // prev_size behind the free chunk 503
  const RecordedWalk walk(it.heap);
  CHECK(walk.has_complaint("but its footer says 0x60"));
  auto expected = it.heap.expected;
  expected[503].state = ChunkState::kUnknown;
  CHECK(walk.sink.chunks == expected);
}

TEST_CASE("PREV_INUSE alone tells whether a chunk is in a small bin") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  SyntheticArena& main = heap.brk_arena();
  main.add(0x50, ChunkState::kUsed);
  const Address in_bin = main.add(0x300, ChunkState::kSmallbin);
  const Address behind = main.add(0x60, ChunkState::kUsed);
  const Address last = main.add(0x50, ChunkState::kUsed);
  main.top(heap.heap_begin() + 64 * kPage - main.cursor());
  main.system_mem = 64 * kPage;
  heap.finish();
  CHECK(complaints(RecordedWalk(heap)) == "");
  CHECK(RecordedWalk(heap).sink.chunks == heap.expected);
  SUBCASE("set behind one that is: nobody can tell (docs/threats.md)") {
    heap.target.put_word(behind + 8, 0x61);
    const RecordedWalk walk(heap);
    CHECK(complaints(walk) == "");
    auto expected = heap.expected;
    expected[1].state = ChunkState::kUsed;
    REQUIRE(expected[1].at == in_bin);
    CHECK(walk.sink.chunks == expected);
  }
  SUBCASE("cleared behind one that is not") {
    heap.target.put_word(last + 8, 0x50);
    CHECK(RecordedWalk(heap).has_complaint("has size 0x60, but its footer says"));
  }
}

TEST_CASE("memory that cannot be read in the midst of a heap is bridged") {
  RegularHeap it(2000);
  const Address hole = it.heap.heap_begin() + 10 * kPage;
  it.heap.target.make_unreadable({hole, hole + 2 * kPage});
  const RecordedWalk walk(it.heap);
  check_shape(walk);
  CHECK(walk.has_complaint("cannot be read"));
  CHECK(walk.count(ChunkState::kUsed) > 1500);
  CHECK(walk.sink.chunks.back().state == ChunkState::kTop);
}

TEST_CASE("what a core lists of a heap and does not hold is passed over") {
  RegularHeap it(2000);
  it.heap.target.forget_residency();
  const AddressRange brk = it.heap.target.address_space().find(it.heap.heap_begin())->range;
  constexpr uint64_t kListed = 64ULL << 20;
  const Address far = brk.end + kListed;
  it.heap.target.map(brk.end, kListed + kPage, "rw-p", "[heap]");
  it.heap.target.make_unreadable({brk.end, far});
  it.heap.target.know_holes();
  it.heap.target.put_word(it.heap.main().state() + it.heap.layout.state.top, far.value());
  it.heap.target.put_word(far + 8, kPage | 1);
  RecordingSink sink;
  const HeapModel model = walk_heaps(it.heap.target, {it.heap.located()}, sink);
  CHECK(!model.corruptions.empty());
  REQUIRE(!sink.chunks.empty());
  CHECK(sink.chunks.back().at == far);
  CHECK(sink.chunks.back().state == ChunkState::kTop);
  CHECK(it.heap.target.reads() < 10'000);
}

TEST_CASE("damage in one place does not hide the rest, however often") {
  RegularHeap it(20000);
  for (size_t i = 100; i < 20000; i += 100) it.damage_size(i, 0x3333333333333333);
  const RecordedWalk walk(it.heap);
  check_shape(walk);
  CHECK(walk.sink.chunks.size() == it.heap.expected.size());
  CHECK(walk.count(ChunkState::kUnknown) == 2 * 199);
}

TEST_CASE("more damage than anybody reads is cut off, and said to be") {
  RegularHeap it(100000, false);
  for (size_t i = 10; i < 100000; i += 20) it.damage_size(i, 0x3333333333333333);
  const RecordedWalk walk(it.heap);
  check_shape(walk);
  CHECK(walk.has_complaint("too much damage"));
  CHECK(walk.model.corruptions.size() < 1100);
  const ExpectedChunk& last = walk.sink.chunks.back();
  CHECK(last.state == ChunkState::kTop);
}

TEST_CASE("a heap of what looks like sizes everywhere ends in bounded time") {
  for (const uint64_t value : {0x21ULL, 0x20ULL, 0x1001ULL, 0x31ULL}) {
    CAPTURE(value);
    SyntheticHeap heap(Machine::kX86_64, 36);
    SyntheticArena& main = heap.brk_arena(4096);
    main.add(0x20, ChunkState::kUsed);
    main.top(4096 * kPage - 0x20);
    main.system_mem = 4096 * kPage;
    heap.finish();
    std::vector<uint64_t> words(4096 * kPage / 8, value);
    heap.target.put_bytes(heap.heap_begin(), std::as_bytes(std::span(words)));
    // top is far up, and is never reached: its place is odd to every chain of these sizes.
    heap.target.put_word(main.state() + heap.layout.state.top,
                         (heap.heap_begin() + 4096 * kPage - 0x1010).value());
    const double took = seconds([&] {
      const RecordedWalk walk(heap);
      check_shape(walk);
    });
    CHECK(took < 20);
  }
}

TEST_CASE("random memory is walked to an end, whatever it holds") {
  std::mt19937_64 random(11);
  for (unsigned round = 0; round < 150; ++round) {
    CAPTURE(round);
    const Machine machine = round % 3 == 0 ? Machine::kI386 : Machine::kX86_64;
    SyntheticHeap heap(machine, round % 2 == 0 ? 36 : 43);
    SyntheticArena& main = heap.brk_arena(64);
    if (round % 4 != 0) heap.thread(main, 1);
    for (unsigned i = 0; i < 500; ++i) main.add(0x40 + i % 9 * 16, ChunkState::kUsed);
    main.top(heap.heap_begin() + 64 * kPage - main.cursor());
    main.system_mem = 64 * kPage;
    SyntheticArena& other = heap.thread_arena(heap.heaps_begin(), 32);
    for (unsigned i = 0; i < 200; ++i) other.add(0x40 + i % 9 * 16, ChunkState::kUsed);
    other.top(heap.heaps_begin() + 32 * kPage - other.cursor());
    const Address mapped =
        machine == Machine::kI386 ? Address(0xf6000000) : Address(0x7f4000000000);
    heap.target.map(mapped, 0x100000);
    main.is_noncontiguous = round % 5 == 0;
    heap.finish();

    const AddressRange places[] = {{heap.heap_begin(), heap.heap_begin() + 64 * kPage},
                                   {heap.heaps_begin(), heap.heaps_begin() + 32 * kPage},
                                   {main.state(), main.state() + 0x900},
                                   {mapped, mapped + 0x100000}};
    const unsigned strokes = 1 + random() % 300;
    for (unsigned i = 0; i < strokes; ++i) {
      const AddressRange& place = places[random() % std::size(places)];
      const Address at = place.begin + random() % place.size() / 8 * 8;
      uint64_t value = random() >> random() % 64;
      // Values that mean something: addresses of the heap, sizes, flags.
      if (random() % 3 == 0) value = (place.begin + random() % place.size() / 16 * 16).value();
      if (random() % 3 == 0) value = random() % 0x800;
      if (random() % 16 == 0) value = 0x1002;
      heap.target.put_word(at, value);
    }
    const RecordedWalk walk(heap);
    check_shape(walk);
  }
}
