#include "analysis/heap_map.h"

#include <doctest/doctest.h>

#include "tests/unit/analysis/handmade_snapshot.h"

using namespace heapsnap;
using heapsnap::test::HandmadeSnapshot;

TEST_CASE("a heap is drawn pixel by pixel, regions apart") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_segment(
      0, SegmentKind::kBrk, 0x1000,
      {{24, ChunkState::kUsed}, {8, ChunkState::kLargebin}, {32, ChunkState::kTop}});
  MmappedChunk mmapped;
  mmapped.mapping_begin = Address(0x9000);
  mmapped.total = 32;
  snapshot.mmapped.push_back(mmapped);
  snapshot.add_pages(0x1020, 0x1040, PageState::kAbsent);
  snapshot.add_pages(0x9000, 0x9010, PageState::kSwapped);

  const HeapMap map = map_heap(snapshot.streams(), 16, 16);
  CHECK(map.bytes_per_pixel == 16);
  REQUIRE(map.regions.size() == 2);
  CHECK(map.regions[1].first_pixel == 5);
  CHECK(map.height == 1);
  using Pixel = HeapMap::Pixel;
  CHECK(map.pixels[0] == Pixel{16, 0, 0, 0});
  CHECK(map.pixels[1] == Pixel{8, 8, 0, 0});
  CHECK(map.pixels[2] == Pixel{0, 16, 16, 0});
  CHECK(map.pixels[3] == Pixel{0, 16, 16, 0});
  CHECK(map.pixels[4] == Pixel{});
  CHECK(map.pixels[5] == Pixel{16, 0, 0, 16});
  CHECK(map.pixels[6] == Pixel{16, 0, 0, 0});
  CHECK(map.pixels[7] == Pixel{});
}

TEST_CASE("a large heap fits at a coarser scale, and no byte is lost") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  HandmadeSnapshot::Chunks chunks;
  uint64_t used = 0;
  uint64_t free = 0;
  for (uint64_t i = 0; i < 5000; ++i) {
    const uint64_t size = 32 + 16 * (i % 97);
    chunks.push_back({size, i % 3 == 0 ? ChunkState::kLargebin : ChunkState::kUsed});
    (i % 3 == 0 ? free : used) += size;
  }
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000, chunks);
  const HeapMap map = map_heap(snapshot.streams(), 20, 10);
  CHECK(map.height <= 10);
  CHECK(map.pixels.size() == size_t{map.width} * map.height);
  HeapMap::Pixel sum;
  for (const HeapMap::Pixel& pixel : map.pixels) {
    sum.used += pixel.used;
    sum.free += pixel.free;
    CHECK(pixel.used + pixel.free <= map.bytes_per_pixel);
  }
  CHECK(sum.used == used);
  CHECK(sum.free == free);
  // The next finer scale would not have fitted.
  CHECK((used + free) / (map.bytes_per_pixel / 2) > 190);
}

TEST_CASE("no heap, no picture; a region at the end of the address space ends") {
  HandmadeSnapshot snapshot;
  CHECK(map_heap(snapshot.streams(), 64, 64).height == 0);

  snapshot.add_arena(true);
  snapshot.add_segment(0, SegmentKind::kBrk, UINT64_MAX - 63, {{48, ChunkState::kUsed}});
  const HeapMap map = map_heap(snapshot.streams(), 64, 64);
  REQUIRE(map.height == 1);
  CHECK(map.pixels[2].used == 16);
  CHECK(map.pixels[3] == HeapMap::Pixel{});
}
