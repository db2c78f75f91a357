#include "analysis/leak_trails.h"

#include <doctest/doctest.h>

#include "handmade_references.h"

using namespace heapsnap;
using namespace heapsnap::test;

TEST_CASE("a trail leads to what was lost with a block, each block once") {
  HandmadeHeap heap;
  const BlockNumber kept = heap.add(56);
  const BlockNumber lost = heap.add(56);
  const BlockNumber second = heap.add(120);
  const BlockNumber third = heap.add(40);
  const BlockNumber last = heap.add(24);
  heap.hold(heap.add_place(RootKind::kVariable, "g"), kept);
  heap.link(lost, 8, second);
  heap.link(lost, 16, kept);
  heap.link(lost, 24, third);
  heap.link(second, 0, last);
  heap.link(third, 32, last);
  heap.link(last, 0, second);
  const SnapshotStreams streams = heap.finish();
  const LeakCensus census = take_leak_census(streams, heap.streams);
  REQUIRE(census.groups.size() == 1);

  const auto trails = leak_trails(streams, heap.streams, census);
  REQUIRE(trails.size() == 1);
  REQUIRE(trails[0].size() == 4);
  const auto address = [&](size_t step) { return census.blocks[trails[0][step].block].address; };
  CHECK(address(0) == heap.address_of(lost));
  CHECK(address(1) == heap.address_of(second));
  CHECK(trails[0][1].held_at == 8);
  CHECK(trails[0][1].from == 0);
  CHECK(address(2) == heap.address_of(third));
  CHECK(trails[0][2].held_at == 24);
  CHECK(address(3) == heap.address_of(last));
  CHECK(trails[0][3].from == 1);
  CHECK(trails[0][3].held_at == 0);

  CHECK(leak_trails(streams, heap.streams, census, {1, 3, 4})[0].size() == 3);
  CHECK(leak_trails(streams, heap.streams, census, {1, 24, 1})[0].size() == 3);
  CHECK(leak_trails(streams, heap.streams, census, {0, 24, 4}).empty());
}

TEST_CASE("where nothing is leaked there is no trail") {
  HandmadeHeap heap;
  heap.hold(heap.add_place(RootKind::kVariable, "g"), heap.add(56));
  const SnapshotStreams streams = heap.finish();
  CHECK(leak_trails(streams, heap.streams, take_leak_census(streams, heap.streams)).empty());
}
