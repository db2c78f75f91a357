#include "analysis/chunk_lookup.h"

#include <doctest/doctest.h>

#include "tests/unit/analysis/tracked_snapshot.h"

using namespace heapsnap;

TEST_CASE("an address finds the chunk whose block, header or free space it is in") {
  test::HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_arena(false);
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                       {{0x40, ChunkState::kUsed},
                        {0x30, ChunkState::kTcache},
                        {0x50, ChunkState::kUsed},
                        {0x20, ChunkState::kUnknown},
                        {0x100, ChunkState::kTop}});
  snapshot.add_segment(1, SegmentKind::kThreadHeap, 0x20000, {{0x20, ChunkState::kUsed}});
  snapshot.metadata.heap.thread_caches = {{7, Address(0x20010), 1, 0, 0}};
  const auto find = [&](uint64_t at) { return find_chunk(snapshot.streams(), Address(at)); };

  CHECK_FALSE(find(0xffff));
  for (const uint64_t at : {0x10000, 0x10010, 0x1003f, 0x10047}) {
    CAPTURE(at);
    const auto chunk = find(at);
    REQUIRE(chunk);
    CHECK(chunk->pointer == Address(0x10010));
    CHECK(chunk->size == 0x40);
    CHECK(chunk->usable == 0x38);
    CHECK(chunk->state == ChunkState::kUsed);
    CHECK(chunk->arena == 0);
    CHECK_FALSE(chunk->is_thread_cache);
  }
  // The first word behind a block in use is the block's; behind a free chunk it is malloc's.
  CHECK(find(0x10048)->state == ChunkState::kTcache);
  CHECK(find(0x10048)->usable == 0x20);
  CHECK(find(0x10070)->pointer == Address(0x10080));
  CHECK(find(0x100c0)->pointer == Address(0x10080));
  const auto unknown = find(0x100c8);
  CHECK(unknown->state == ChunkState::kUnknown);
  CHECK(unknown->pointer == Address(0x100c0));
  CHECK(unknown->usable == 0x20);
  CHECK(find(0x101df)->state == ChunkState::kTop);
  CHECK_FALSE(find(0x101e0));
  CHECK(find(0x20018)->is_thread_cache);
  CHECK(find(0x20018)->arena == 1);
}

TEST_CASE("a chunk in a mapping of its own is found in all of the mapping") {
  test::HandmadeSnapshot snapshot;
  snapshot.mmapped.push_back(
      {Address(0x40000), Address(0x40f00), 0x3000, 0x2100, 0x20f0, ChunkState::kMmapped, 0, 5, 3});
  for (const uint64_t at : {0x40000, 0x40f10, 0x42fff}) {
    const auto chunk = find_chunk(snapshot.streams(), Address(at));
    REQUIRE(chunk);
    CHECK(chunk->pointer == Address(0x40f10));
    CHECK(chunk->usable == 0x20f0);
    CHECK(chunk->arena == -1);
    CHECK(chunk->stack == 5);
    CHECK(chunk->slack == 3);
  }
  CHECK_FALSE(find_chunk(snapshot.streams(), Address(0x43000)));
}

TEST_CASE("the chunk of a tracked process comes with its stack") {
  test::TrackedSnapshot snapshot;
  snapshot.add(0x40, ChunkState::kUsed, 2, 1);
  snapshot.add(0x60, ChunkState::kUsed, 3, 4);
  const auto chunk = find_chunk(snapshot.tracked_streams(), Address(0x10050));
  REQUIRE(chunk);
  CHECK(chunk->stack == 3);
  CHECK(chunk->slack == 4);
}
