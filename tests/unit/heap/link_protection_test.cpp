// Links of free lists where nothing tells the version.
#include "heap/walk/link_protection.h"

#include <doctest/doctest.h>

#include "tests/unit/heap/recorded_walk.h"

using namespace heapsnap;

namespace {

void cached_heap(SyntheticHeap& heap) {
  SyntheticArena& main = heap.brk_arena(64);
  heap.thread(main, 1);
  for (unsigned i = 0; i < 60; ++i) {
    main.add(0x30 + i % 6 * 0x10, i % 2 == 0 ? ChunkState::kTcache : ChunkState::kUsed);
  }
  main.top(heap.heap_begin() + 64 * kPage - main.cursor());
  main.system_mem = 64 * kPage;
  heap.finish();
}

}  // namespace

TEST_CASE("without a version, lists tell whether their links are protected") {
  // Written by one version, read with the layout of the other; both have the same structs.
  for (const auto& versions : {std::pair{31, 34}, std::pair{34, 31}, std::pair{34, 34}}) {
    const int written = versions.first;
    const int read = versions.second;
    CAPTURE(written);
    CAPTURE(read);
    SyntheticHeap heap(Machine::kX86_64, written);
    cached_heap(heap);
    LocatedMalloc located = heap.located();
    located.layout.safe_linking = read >= 32;
    located.instance.version = {};
    const RecordedWalk walk(heap.target, {located});
    CHECK(complaints(walk) == "");
    CHECK(walk.sink.chunks == heap.expected);
    CHECK(walk.model.instances[0].notes.size() == (written == read ? 0 : 1));
  }
}

TEST_CASE("a known version is believed") {
  SyntheticHeap heap(Machine::kX86_64, 34);
  cached_heap(heap);
  LocatedMalloc located = heap.located();
  located.layout.safe_linking = false;
  located.instance.version = {2, 31};
  const RecordedWalk walk(heap.target, {located});
  CHECK(walk.has_complaint("tcache"));
}

TEST_CASE("empty lists are no evidence") {
  SyntheticHeap heap(Machine::kX86_64, 34);
  SyntheticArena& main = heap.brk_arena(4);
  heap.thread(main, 1);
  main.top(heap.heap_begin() + 4 * kPage - main.cursor());
  main.system_mem = 4 * kPage;
  heap.finish();
  PageCache cache(heap.target.memory());
  const HeapArea area{{heap.heap_begin(), heap.heap_begin() + 4 * kPage},
                      {},
                      heap.heap_begin(),
                      {},
                      0,
                      SegmentKind::kBrk};
  CorruptionLog log;
  const HeapAreas areas({area}, log);
  const ThreadCache thread{1, heap.heap_begin() + 0x10, 0, 0, 0};
  CHECK_FALSE(are_links_protected(cache, heap.layout, areas, {&thread, 1}).has_value());
  CHECK_FALSE(are_links_protected(cache, heap.layout, areas, {}).has_value());
}
