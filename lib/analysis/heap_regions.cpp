#include "analysis/heap_regions.h"

#include <algorithm>
#include <tuple>

namespace heapsnap {

namespace {

class MmappedRegions final : public ChunkSink {
 public:
  explicit MmappedRegions(std::vector<HeapRegion>& regions) : regions_(regions) {}
  void on_batch(const ChunkBatch& /*batch*/) override {}
  void on_mmapped(const MmappedChunk& chunk) override {
    const uint64_t room = UINT64_MAX - chunk.mapping_begin.value();
    regions_.push_back(
        {{chunk.mapping_begin, chunk.mapping_begin + std::min(chunk.total, room)}, -1, 0});
  }

 private:
  std::vector<HeapRegion>& regions_;
};

bool begins_first(const HeapRegion& a, const HeapRegion& b) {
  return std::tuple(a.range, a.arena, a.segment) < std::tuple(b.range, b.arena, b.segment);
}

}  // namespace

std::vector<HeapRegion> heap_regions(const SnapshotStreams& streams) {
  std::vector<HeapRegion> regions;
  const std::vector<HeapSegment>& segments = streams.metadata->heap.segments;
  for (size_t i = 0; i < segments.size(); ++i) {
    regions.push_back({segments[i].range, segments[i].arena, static_cast<uint32_t>(i)});
  }
  MmappedRegions mmapped(regions);
  streams.read_chunks(mmapped);
  std::sort(regions.begin(), regions.end(), begins_first);

  Address end;
  size_t kept = 0;
  for (HeapRegion region : regions) {
    region.range.begin = std::max(region.range.begin, end);
    if (region.range.is_empty()) continue;
    end = region.range.end;
    regions[kept++] = region;
  }
  regions.resize(kept);
  return regions;
}

std::vector<HeapRegion> regions_within(std::span<const HeapRegion> regions,
                                       std::span<const AddressRange> ranges) {
  std::vector<HeapRegion> within;
  for (const AddressRange& range : ranges) {
    for (HeapRegion region : regions) {
      region.range.begin = std::max(region.range.begin, range.begin);
      region.range.end = std::min(region.range.end, range.end);
      if (!region.range.is_empty()) within.push_back(region);
    }
  }
  std::sort(within.begin(), within.end(), begins_first);
  within.erase(std::unique(within.begin(), within.end()), within.end());
  return within;
}

}  // namespace heapsnap
