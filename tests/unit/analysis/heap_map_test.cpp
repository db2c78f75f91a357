#include "analysis/heap_map.h"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "analysis/map_classes.h"
#include "analysis/map_painter.h"
#include "tests/unit/analysis/handmade_snapshot.h"

using namespace heapsnap;
using heapsnap::test::HandmadeSnapshot;

namespace {

using ClassKind = MapClass::Kind;

void add_mmapped(HandmadeSnapshot& snapshot, uint64_t begin, uint64_t total) {
  MmappedChunk chunk;
  chunk.mapping_begin = chunk.chunk = Address(begin);
  chunk.total = total;
  snapshot.mmapped.push_back(chunk);
}

// The whole of a small map, painted.
struct Painted {
  std::vector<HeapRegion> regions;
  MapPanels panels;
  HeapMap map;
  MapBand band;
  MapFigures figures;

  Painted(const HandmadeSnapshot& snapshot, const MapClasses& classes, uint64_t scale,
          size_t max_page_runs = PageStates::kMaxRuns)
      : regions(heap_regions(snapshot.streams())),
        panels(map_panels(snapshot.metadata.heap, regions, 8)),
        map(regions, panels, scale),
        band(map, classes.list().size(), 0, map.squares()),
        figures(paint_band(snapshot.streams(), classes, map, band, max_page_runs)) {}

  uint64_t bytes(const MapClasses& classes, uint64_t square, ClassKind kind) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < classes.list().size(); ++i) {
      if (classes.list()[i].kind == kind) sum += band.bytes_in(square)[i];
    }
    return sum;
  }
  uint64_t total(const MapClasses& classes, ClassKind kind) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < classes.list().size(); ++i) {
      if (classes.list()[i].kind == kind) sum += figures.classes[i];
    }
    return sum;
  }
};

HandmadeSnapshot small_heap() {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_segment(
      0, SegmentKind::kBrk, 0x1000,
      {{24, ChunkState::kUsed}, {8, ChunkState::kLargebin}, {32, ChunkState::kTop}});
  add_mmapped(snapshot, 0x9000, 32);
  snapshot.add_pages(0x1000, 0x2000, PageState::kResident);
  snapshot.add_pages(0x9000, 0xa000, PageState::kSwapped);
  return snapshot;
}

}  // namespace

TEST_CASE("each byte of a heap is in its square, in the class of its chunk and its page") {
  const HandmadeSnapshot snapshot = small_heap();
  const MapClasses classes = MapClasses::by_state();
  const Painted painted(snapshot, classes, 16);
  REQUIRE(painted.map.panels().size() == 2);
  CHECK(painted.map.panels()[0].count == 4);
  CHECK(painted.map.panels()[1].first == 4);
  CHECK(painted.map.squares() == 6);
  CHECK(painted.bytes(classes, 0, ClassKind::kInUse) == 16);
  CHECK(painted.bytes(classes, 1, ClassKind::kInUse) == 8);
  CHECK(painted.bytes(classes, 1, ClassKind::kBins) == 8);
  CHECK(painted.bytes(classes, 2, ClassKind::kTop) == 16);
  CHECK(painted.bytes(classes, 3, ClassKind::kTop) == 16);
  CHECK(painted.bytes(classes, 5, ClassKind::kSwapped) == 16);
  CHECK(painted.band.begins_chunk(0));
  CHECK(painted.band.begins_chunk(1));  // the free one, in its middle
  CHECK(painted.band.begins_chunk(2));
  CHECK_FALSE(painted.band.begins_chunk(3));
  CHECK(painted.total(classes, ClassKind::kSwapped) == 32);
  CHECK(painted.figures.panels[0].in_use == 24);
  CHECK(painted.figures.panels[0].free == 40);
  CHECK(painted.figures.panels[1].in_use == 32);
}

TEST_CASE("squares begin at multiples of their bytes, and know their addresses") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_segment(0, SegmentKind::kBrk, 0x1030, {{0x50, ChunkState::kUsed}});
  const MapClasses classes = MapClasses::by_state();
  const Painted painted(snapshot, classes, 64);
  REQUIRE(painted.map.squares() == 2);
  CHECK(painted.bytes(classes, 0, ClassKind::kInUse) == 0x10);
  CHECK(painted.bytes(classes, 1, ClassKind::kInUse) == 0x40);
  CHECK(painted.map.address_of(0) == Address(0x1030));
  CHECK(painted.map.address_of(1) == Address(0x1040));
  CHECK_FALSE(painted.map.address_of(2));
}

TEST_CASE("a large heap at a coarse scale loses no byte, nor in bands, nor in windows of pages") {
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
  for (uint64_t page = 0x10000; page < 0x300000; page += 0x2000) {
    snapshot.add_pages(page, page + 0x1000, PageState::kResident);
  }
  const MapClasses classes = MapClasses::by_state();
  for (const size_t most_runs : {PageStates::kMaxRuns, size_t{10}}) {
    const Painted painted(snapshot, classes, 4096, most_runs);
    CHECK(painted.total(classes, ClassKind::kInUse) == used);
    CHECK(painted.total(classes, ClassKind::kBins) == free);
    uint64_t in_squares = 0;
    for (uint64_t square = 0; square < painted.map.squares(); ++square) {
      const auto bytes = painted.band.bytes_in(square);
      const uint64_t sum = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
      CHECK(sum <= 4096);
      in_squares += sum;
    }
    CHECK(in_squares == used + free);
    // Bands that begin and end within chunks.
    for (uint64_t first = 0; first < painted.map.squares(); first += 7) {
      const size_t count = std::min<uint64_t>(7, painted.map.squares() - first);
      MapBand band(painted.map, classes.list().size(), first, count);
      const MapFigures figures = paint_band(snapshot.streams(), classes, painted.map, band);
      CHECK(figures.classes == painted.figures.classes);
      for (uint64_t square = first; square < first + count; ++square) {
        const auto whole = painted.band.bytes_in(square);
        const auto part = band.bytes_in(square);
        CHECK(std::equal(whole.begin(), whole.end(), part.begin(), part.end()));
      }
    }
  }
}

TEST_CASE("regions apart have a gap between them, very many regions have none") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_segment(0, SegmentKind::kBrk, 0x1000, {{0x100, ChunkState::kUsed}});
  for (uint64_t i = 0; i < 10; ++i) add_mmapped(snapshot, 0x100000 + i * 0x10000, 0x1000);
  const MapClasses classes = MapClasses::by_state();
  const Painted fine(snapshot, classes, 256);
  CHECK(fine.map.panels()[1].count == 10 * 16 + 9);
  CHECK_FALSE(fine.map.address_of(fine.map.panels()[1].first + 16));
  CHECK(fine.map.address_of(fine.map.panels()[1].first + 17) == Address(0x110000));

  const Painted coarse(snapshot, classes, 8192);
  CHECK(coarse.map.panels()[1].count == 5);
  CHECK(coarse.bytes(classes, coarse.map.panels()[1].first, ClassKind::kInUse) == 8192);
  CHECK(coarse.map.address_of(coarse.map.panels()[1].first + 1) == Address(0x120000));
}

TEST_CASE("segments have panels of their own, then arenas, then the largest arenas") {
  HandmadeSnapshot snapshot;
  for (int arena = 0; arena < 6; ++arena) {
    snapshot.add_arena(arena == 0);
    for (uint64_t segment = 0; segment < 2; ++segment) {
      snapshot.add_segment(arena, SegmentKind::kThreadHeap,
                           0x100000 * (1 + static_cast<uint64_t>(arena)) + 0x10000 * segment,
                           {{0x100 * (1 + static_cast<uint64_t>(arena)), ChunkState::kUsed}});
    }
  }
  add_mmapped(snapshot, 0x9000000, 0x1000);
  const std::vector<HeapRegion> regions = heap_regions(snapshot.streams());
  const HeapModel& heap = snapshot.metadata.heap;
  using Kind = MapPanel::Kind;

  const MapPanels by_segment = map_panels(heap, regions, 13);
  REQUIRE(by_segment.panels.size() == 13);
  CHECK(by_segment.panels[3].arena == 1);
  CHECK(by_segment.panels[3].segment == 2);
  CHECK(by_segment.panels[3].segments == 2);
  CHECK(by_segment.panels[12].kind == Kind::kMmapped);

  const MapPanels by_arena = map_panels(heap, regions, 12);
  REQUIRE(by_arena.panels.size() == 7);
  CHECK(by_arena.panels[5].kind == Kind::kArena);
  CHECK(by_arena.panels[5].count == 2);
  CHECK(by_arena.panels[5].bytes == 2 * 0x600);

  const MapPanels largest = map_panels(heap, regions, 4);
  REQUIRE(largest.panels.size() == 4);
  CHECK(largest.panels[0].arena == 4);
  CHECK(largest.panels[1].arena == 5);
  CHECK(largest.panels[2].kind == Kind::kOtherArenas);
  CHECK(largest.panels[2].count == 4);
  CHECK(largest.panels[2].bytes == 2 * (0x100 + 0x200 + 0x300 + 0x400));
  CHECK(largest.panels[3].kind == Kind::kMmapped);

  const MapPanels least = map_panels(heap, regions, 2);
  REQUIRE(least.panels.size() == 2);
  CHECK(least.panels[0].count == 6);
}

TEST_CASE("hostile regions: none, overlapping ones, one that ends with the address space") {
  HandmadeSnapshot snapshot;
  CHECK(heap_regions(snapshot.streams()).empty());

  snapshot.add_arena(true);
  snapshot.add_segment(0, SegmentKind::kBrk, 0x1000, {{0x1000, ChunkState::kUsed}});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x1800, {{0x1000, ChunkState::kTop}});
  snapshot.add_segment(0, SegmentKind::kBrk, UINT64_MAX - 63, {{48, ChunkState::kUsed}});
  add_mmapped(snapshot, UINT64_MAX - 4, UINT64_MAX);
  const std::vector<HeapRegion> regions = heap_regions(snapshot.streams());
  REQUIRE(regions.size() == 4);
  CHECK(regions[0].range.end == Address(0x2000));
  CHECK(regions[1].range.begin == Address(0x2000));

  const MapClasses classes = MapClasses::by_state();
  for (const uint64_t scale : {uint64_t{16}, uint64_t{1} << 40, uint64_t{1} << 63}) {
    const Painted painted(snapshot, classes, scale);
    CHECK(painted.map.squares() <= 1024);
    CHECK(painted.total(classes, ClassKind::kInUse) == 0x1000 + 48 + 4);
  }
  // More than can be counted at the finest scale.
  snapshot.metadata.heap.segments[0].range = {Address(16), Address(UINT64_MAX / 2)};
  snapshot.metadata.heap.segments[1].range = {Address(UINT64_MAX / 2), Address(UINT64_MAX)};
  const std::vector<HeapRegion> huge = heap_regions(snapshot.streams());
  const MapPanels panels = map_panels(snapshot.metadata.heap, huge, 8);
  CHECK(HeapMap(huge, panels, 16).squares() >= uint64_t{1} << 60);
  CHECK(HeapMap(huge, panels, uint64_t{1} << 63).squares() <= 6);
}

TEST_CASE("a part of the regions is cut to the addresses asked for") {
  const std::vector<HeapRegion> regions{{{Address(0x1000), Address(0x3000)}, 0, 0},
                                        {{Address(0x8000), Address(0x9000)}, -1, 0}};
  const std::vector<AddressRange> ranges{{Address(0x2000), Address(0x8800)},
                                         {Address(0x8800), Address(0x8800)}};
  const std::vector<HeapRegion> within = regions_within(regions, ranges);
  REQUIRE(within.size() == 2);
  CHECK(within[0].range == AddressRange{Address(0x2000), Address(0x3000)});
  CHECK(within[1].range == AddressRange{Address(0x8000), Address(0x8800)});
}
