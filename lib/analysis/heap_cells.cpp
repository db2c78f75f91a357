#include "analysis/heap_cells.h"

#include <algorithm>
#include <bit>

#include "heap/chunk.h"

namespace heapsnap {

namespace {

constexpr uint64_t kFinestScale = 16;

class MmappedRanges final : public ChunkSink {
 public:
  void on_batch(const ChunkBatch& /*batch*/) override {}
  void on_mmapped(const MmappedChunk& chunk) override {
    ranges.push_back({chunk.mapping_begin, chunk.mapping_begin + chunk.total});
  }
  std::vector<AddressRange> ranges;
};

// Ordered and disjoint; what touches becomes one region.
std::vector<HeapCells::Region> regions_of(const SnapshotStreams& streams) {
  MmappedRanges mmapped;
  streams.read_chunks(mmapped);
  std::vector<AddressRange> ranges = std::move(mmapped.ranges);
  for (const HeapSegment& segment : streams.metadata->heap.segments) {
    ranges.push_back(segment.range);
  }
  std::sort(ranges.begin(), ranges.end());
  std::vector<HeapCells::Region> regions;
  for (const AddressRange& range : ranges) {
    if (range.is_empty()) continue;
    if (!regions.empty() && range.begin <= regions.back().range.end) {
      regions.back().range.end = std::max(regions.back().range.end, range.end);
    } else {
      regions.push_back({range, 0});
    }
  }
  return regions;
}

// Pixels of all regions at this scale, with what parts them; saturates instead of overflowing.
uint64_t pixels_needed(const std::vector<HeapCells::Region>& regions, uint64_t scale) {
  uint64_t pixels = 0;
  for (const HeapCells::Region& region : regions) {
    const uint64_t own = region.range.size() / scale + 2;
    if (own > UINT64_MAX - pixels) return UINT64_MAX;
    pixels += own;
  }
  return pixels;
}

// Puts bytes of address ranges into the pixels that have them.
class Brush {
 public:
  explicit Brush(HeapCells& map) : map_(map), shift_(std::countr_zero(map.bytes_per_pixel)) {}

  void paint(AddressRange range, uint64_t HeapCells::Pixel::*member) {
    auto region = std::upper_bound(
        map_.regions.begin(), map_.regions.end(), range.begin,
        [](Address address, const HeapCells::Region& other) { return address < other.range.end; });
    for (; region != map_.regions.end() && region->range.begin < range.end; ++region) {
      paint_in(*region,
               {std::max(range.begin, region->range.begin), std::min(range.end, region->range.end)},
               member);
    }
  }

 private:
  void paint_in(const HeapCells::Region& region, AddressRange range,
                uint64_t HeapCells::Pixel::*member) {
    uint64_t offset = range.begin - region.range.begin;
    uint64_t left = range.size();
    while (left > 0) {
      const uint64_t in_pixel = map_.bytes_per_pixel - (offset & (map_.bytes_per_pixel - 1));
      const uint64_t bytes = std::min(left, in_pixel);
      map_.pixels[region.first_pixel + (offset >> shift_)].*member += bytes;
      offset += bytes;
      left -= bytes;
    }
  }

  HeapCells& map_;
  int shift_;
};

class ChunkPainter final : public ChunkSink {
 public:
  explicit ChunkPainter(Brush& brush) : brush_(brush) {}

  void on_batch(const ChunkBatch& batch) override {
    Address begin = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      const AddressRange range{begin, begin + batch.sizes[i]};
      if (is_live(batch.states[i])) {
        brush_.paint(range, &HeapCells::Pixel::used);
      } else if (is_free(batch.states[i])) {
        brush_.paint(range, &HeapCells::Pixel::free);
      }
      begin = range.end;
    }
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    brush_.paint({chunk.mapping_begin, chunk.mapping_begin + chunk.total},
                 is_free(chunk.state) ? &HeapCells::Pixel::free : &HeapCells::Pixel::used);
  }

 private:
  Brush& brush_;
};

}  // namespace

HeapCells sum_heap_cells(const SnapshotStreams& streams, unsigned width, unsigned max_height) {
  HeapCells map;
  map.width = width;
  map.regions = regions_of(streams);
  const uint64_t most = uint64_t{width} * max_height;
  map.bytes_per_pixel = kFinestScale;
  // Every region costs a pixel or two however coarse the scale is: those beyond are left out.
  if (map.regions.size() > most / 4) map.regions.resize(most / 4);
  while (pixels_needed(map.regions, map.bytes_per_pixel) > most) map.bytes_per_pixel *= 2;

  uint64_t next = 0;
  for (HeapCells::Region& region : map.regions) {
    region.first_pixel = next;
    next += (region.range.size() - 1) / map.bytes_per_pixel + 2;
  }
  map.height = static_cast<unsigned>((next + width - 1) / width);
  map.pixels.resize(uint64_t{map.height} * width);

  Brush brush(map);
  ChunkPainter painter(brush);
  streams.read_chunks(painter);
  streams.read_pages([&](const PageRun& run) {
    if (run.state == PageState::kAbsent) brush.paint(run.range, &HeapCells::Pixel::absent);
    if (run.state == PageState::kSwapped) brush.paint(run.range, &HeapCells::Pixel::swapped);
  });
  return map;
}

}  // namespace heapsnap
