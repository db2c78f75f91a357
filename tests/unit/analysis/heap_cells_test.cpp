#include "analysis/heap_cells.h"

#include <doctest/doctest.h>

#include "tests/unit/analysis/handmade_snapshot.h"

using namespace heapsnap;
using heapsnap::test::HandmadeSnapshot;

TEST_CASE("a heap is summed pixel by pixel, regions apart") {
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

  const HeapCells cells = sum_heap_cells(snapshot.streams(), 16, 16);
  CHECK(cells.bytes_per_pixel == 16);
  REQUIRE(cells.regions.size() == 2);
  CHECK(cells.regions[1].first_pixel == 5);
  CHECK(cells.height == 1);
  using Pixel = HeapCells::Pixel;
  CHECK(cells.pixels[0] == Pixel{16, 0, 0, 0});
  CHECK(cells.pixels[1] == Pixel{8, 8, 0, 0});
  CHECK(cells.pixels[2] == Pixel{0, 16, 16, 0});
  CHECK(cells.pixels[3] == Pixel{0, 16, 16, 0});
  CHECK(cells.pixels[4] == Pixel{});
  CHECK(cells.pixels[5] == Pixel{16, 0, 0, 16});
  CHECK(cells.pixels[6] == Pixel{16, 0, 0, 0});
  CHECK(cells.pixels[7] == Pixel{});
}

TEST_CASE("a large heap has coarser cells, and no byte is lost") {
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
  const HeapCells cells = sum_heap_cells(snapshot.streams(), 20, 10);
  CHECK(cells.height <= 10);
  CHECK(cells.pixels.size() == size_t{cells.width} * cells.height);
  HeapCells::Pixel sum;
  for (const HeapCells::Pixel& pixel : cells.pixels) {
    sum.used += pixel.used;
    sum.free += pixel.free;
    CHECK(pixel.used + pixel.free <= cells.bytes_per_pixel);
  }
  CHECK(sum.used == used);
  CHECK(sum.free == free);
  // The next finer scale would not have fitted.
  CHECK((used + free) / (cells.bytes_per_pixel / 2) > 190);
}

TEST_CASE("no heap, no cells; a region at the end of the address space ends") {
  HandmadeSnapshot snapshot;
  CHECK(sum_heap_cells(snapshot.streams(), 64, 64).height == 0);

  snapshot.add_arena(true);
  snapshot.add_segment(0, SegmentKind::kBrk, UINT64_MAX - 63, {{48, ChunkState::kUsed}});
  const HeapCells cells = sum_heap_cells(snapshot.streams(), 64, 64);
  REQUIRE(cells.height == 1);
  CHECK(cells.pixels[2].used == 16);
  CHECK(cells.pixels[3] == HeapCells::Pixel{});
}
