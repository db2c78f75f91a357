// What malloc and free would come upon: nothing in sound heaps, and each kind of damage.
#include "heap/walk/heap_check.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/heap/synthetic_heap.h"

using namespace heapsnap;

namespace {

constexpr uint64_t kSmall = 0x90;
constexpr uint64_t kLarge = 0xbe0;  // of bin 95, as one 0x20 less
constexpr uint64_t kFast = 0x40;
constexpr uint64_t kUnsorted = 0x500;

// Every kind of list in the main arena, and one of a thread with two heaps.
struct CheckedHeap {
  SyntheticHeap heap;
  SyntheticArena* main = nullptr;
  SyntheticArena* second = nullptr;
  Address small, other_small, large, large_twin, larger, fast, other_fast, unsorted, in_second;
  Address top;
  Address older_heap;

  explicit CheckedHeap(int minor = 36) : heap(Machine::kX86_64, minor) {
    main = &heap.brk_arena(16);
    const auto put = [this](uint64_t size, ChunkState state) {
      const Address chunk = main->add(size, state);
      main->add(0x50, ChunkState::kUsed);
      return chunk;
    };
    small = put(kSmall, ChunkState::kSmallbin);
    other_small = put(kSmall, ChunkState::kSmallbin);
    large = put(kLarge - 0x20, ChunkState::kLargebin);
    large_twin = put(kLarge - 0x20, ChunkState::kLargebin);
    larger = put(kLarge, ChunkState::kLargebin);
    const bool has_fastbins = heap.layout.state.fastbin_count != 0;
    const auto fast_state = has_fastbins ? ChunkState::kFastbin : ChunkState::kUsed;
    fast = put(kFast, fast_state);
    other_fast = put(kFast, fast_state);
    unsorted = put(kUnsorted, ChunkState::kUnsorted);
    top = main->cursor();
    const Address end = heap.heap_begin() + 16 * kPage;
    main->top(end - main->cursor());
    main->system_mem = 16 * kPage;

    older_heap = heap.heaps_begin();
    second = &heap.thread_arena(older_heap, 2);
    second->add(0x400, ChunkState::kUsed);
    second->add(older_heap + 2 * kPage - 0x20 - second->cursor(), ChunkState::kUsed);
    second->heap_fence(older_heap + 2 * kPage);
    const Address newer = older_heap + heap.layout.heap_max_size;
    heap.more_heap(*second, newer, older_heap, 2);
    in_second = second->add(0x200, ChunkState::kUnsorted);
    second->add(0x50, ChunkState::kUsed);
    second->top(newer + 2 * kPage - second->cursor());
    heap.idle_thread(1);
    heap.finish();
    link(*main, static_cast<unsigned>(kSmall / 16), {small, other_small});
    link(*main, 95, {larger, large, large_twin});
    put_sizes(larger, large, large);
    put_sizes(large, larger, larger);
  }

  Address bin(const SyntheticArena& arena, unsigned number) const {
    return arena.state() + heap.layout.state.bins + 16 * (number - 1) - 16;
  }
  void link(const SyntheticArena& arena, unsigned number, const std::vector<Address>& chunks) {
    Address previous = bin(arena, number);
    for (const Address chunk : chunks) {
      heap.target.put_word(previous + 16, chunk.value());
      heap.target.put_word(chunk + 24, previous.value());
      previous = chunk;
    }
    heap.target.put_word(previous + 16, bin(arena, number).value());
    heap.target.put_word(bin(arena, number) + 24, previous.value());
  }
  void put_sizes(Address chunk, Address next, Address previous) {
    heap.target.put_word(chunk + 32, next.value());
    heap.target.put_word(chunk + 40, previous.value());
  }

  uint64_t word(Address at) { return heap.target.memory().read_value<uint64_t>(at).value_or(0); }
  std::string damage() {
    std::string all;
    HeapCheck check(heap.located());
    for (const Corruption& each : check.look(heap.target)) all += each.what + "\n";
    return all;
  }
};

struct HeapChange {
  std::string name;
  Address at;
  uint64_t value = 0;
  std::string said;
};

std::vector<HeapChange> heap_changes(CheckedHeap& it) {
  const auto& state = it.heap.layout.state;
  const Address main = it.main->state();
  const Address newer = it.older_heap + it.heap.layout.heap_max_size;
  const uint64_t wild = 0x4141414141414140;
  const auto flipped = [&it](Address at, uint64_t bits) { return it.word(at) ^ bits; };
  return {
      {"size of a free chunk", it.small + 8, kSmall + 0x21, "small bin 9"},
      {"a free chunk behind a free one", it.small + 8, kSmall, "small bin 9"},
      {"a free chunk of its own mapping", it.small + 8, kSmall | 3, "small bin 9"},
      {"a free chunk of another arena", it.small + 8, kSmall | 5, "small bin 9"},
      {"a chunk in a wrong bin", it.bin(*it.main, 12) + 16, it.small.value(), "small bin 12"},
      {"footer", it.small + kSmall, kSmall + 16, "at its end"},
      {"used before a free one", it.small + kSmall + 8, 0x51, "behind a used"},
      {"size behind a free one", it.small + kSmall + 8, 0x1000000000, "has the size field"},
      {"odd size behind a free one", it.small + kSmall + 8, 0x58, "has the size field"},
      {"two free ones", it.other_small + 8, kSmall, "behind a free chunk"},
      {"fd", it.small + 16, wild, "not a chunk of this arena"},
      {"fd to a used chunk", it.small + 16, (it.small + kSmall).value(), "whose link back"},
      {"fd to itself", it.small + 16, it.small.value(), "whose link back"},
      {"bk", it.other_small + 24, wild, "whose link back"},
      {"bin's fd", it.bin(*it.main, 9) + 16, wild, "not a chunk of this arena"},
      {"bin's bk", it.bin(*it.main, 9) + 24, wild, "is said to end with"},
      {"empty bin's fd", it.bin(*it.main, 20) + 16, 0, "not a chunk of this arena"},
      {"empty bin's bk", it.bin(*it.main, 20) + 24, wild, "is said to end with"},
      {"fd_nextsize", it.larger + 32, wild, "links by size"},
      {"bk_nextsize", it.large + 40, it.small.value(), "links by size"},
      {"no fd_nextsize", it.large + 32, 0, "links by size"},
      {"fd_nextsize of a second one", it.large_twin + 32, it.large.value(), "links by size"},
      {"bk_nextsize of the largest", it.larger + 40, it.larger.value(), "links by size"},
      {"order", it.large + 8, 0xbf1, "behind a smaller one"},
      {"large size", it.large + 8, 0x2001, "large bin 95"},
      {"an unsorted chunk with links by size", it.unsorted + 32, it.large.value(), "by size"},
      {"unsorted size", it.unsorted + 8, 0x1000000001, "the unsorted list"},
      {"unsorted fd", it.unsorted + 16, 0, "the unsorted list"},
      {"fast size", it.fast + 8, kFast + 0x11, "in the fastbin of 0x40"},
      {"fast chunk of another arena", it.fast + 8, kFast | 5, "in the fastbin of 0x40"},
      {"fast link", it.fast + 16, wild, "fastbin 2 links to"},
      {"fast circle", it.other_fast + 16, it.fast.value() ^ (it.other_fast + 16).value() >> 12,
       "in a circle"},
      {"fast head", main + state.fastbins + 16, it.fast.value() + 8, "fastbin 2 links to"},
      {"size behind a fast one", it.fast + kFast + 8, 0x31, "marked as free, behind"},
      {"fast chunk behind a free one", it.fast + 8, kFast, "has another size than"},
      {"free behind a fast one", it.fast + kFast + 8, 0x50, "behind a free chunk, not a used"},
      {"top", main + state.top, (it.top + 8).value(), "the top chunk"},
      {"no top", main + state.top, 0, "the top chunk"},
      {"top's size", it.top + 8, 0x11, "the top chunk"},
      {"top's huge size", it.top + 8, 0x100000001, "the top chunk"},
      {"top not to a page's end", it.top + 8, flipped(it.top + 8, 0x100), "the top chunk"},
      {"top behind a free chunk", it.top + 8, flipped(it.top + 8, 1), "behind a free chunk"},
      {"system_mem", main + state.system_mem, 0x40, "the top chunk"},
      {"lock", main, wild, "the lock"},
      {"no next arena", main + state.next, 0, "the next arena is null"},
      {"next arena", it.second->state() + state.next, it.second->state().value(), "next arena"},
      {"next unused arena", main + state.next + 8, wild, "next unused arena"},
      {"another arena's chunk", it.bin(*it.second, 1) + 16, it.small.value(), "not a chunk of"},
      {"free chunk in a thread's heap", it.in_second + 8, 0x211, "at its end"},
      {"arena of a heap", newer, it.main->state().value(), "heap"},
      {"previous heap", newer + 8, newer.value(), "previous heap"},
      {"size of a heap", newer + 16, 0x1000, "heap"},
      {"writable size of a heap", newer + 24, 0x8000000, "writable bytes"},
      {"fencepost", it.older_heap + 2 * kPage - 8, 0x21, "fencepost"},
  };
}

}  // namespace

TEST_CASE("sound heaps of all layouts pass") {
  for (const int minor : {17, 23, 26, 27, 31, 32, 36, 41, 42, 43, 44}) {
    CAPTURE(minor);
    CheckedHeap it(minor);
    CHECK(it.damage() == "");
  }
}

TEST_CASE("an arena in which nothing was allocated passes") {
  SyntheticHeap heap(Machine::kX86_64, 36);
  heap.idle_thread(1);
  heap.finish();
  HeapCheck check(heap.located());
  CHECK(check.look(heap.target).empty());
}

TEST_CASE("each damage is found, in its part only") {
  CheckedHeap sound;
  const size_t count = heap_changes(sound).size();
  for (size_t i = 0; i < count; ++i) {
    CheckedHeap it;
    const HeapChange change = heap_changes(it)[i];
    CAPTURE(change.name);
    REQUIRE(it.word(change.at) != change.value);
    it.heap.target.put_word(change.at, change.value);
    const std::string damage = it.damage();
    CAPTURE(damage);
    CHECK(damage.find(change.said) != std::string::npos);
  }
}

TEST_CASE("a part that was sound once counts as sound, and damage stays") {
  CheckedHeap it;
  const Address fd = it.small + 16;
  const uint64_t right = it.word(fd);
  HeapCheck check(it.heap.located());
  it.heap.target.put_word(fd, 0);
  CHECK(check.look(it.heap.target).size() == 1);
  CHECK(check.look(it.heap.target).size() == 1);
  it.heap.target.put_word(fd, right);
  it.heap.target.put_word(it.unsorted + 16, 0);  // as if it were changing now
  CHECK(check.look(it.heap.target).empty());
}

TEST_CASE("a lock that is taken is no damage") {
  CheckedHeap it;
  it.heap.target.put_word(it.main->state(), it.word(it.main->state()) | 2);
  CHECK(it.damage() == "");
}

TEST_CASE("memory that cannot be read is no reason to crash") {
  CheckedHeap it;
  it.heap.target.put_word(it.small + 16, (it.heap.heap_begin() + 16 * kPage - 16).value());
  CHECK(it.damage().find("small bin 9") != std::string::npos);
}
