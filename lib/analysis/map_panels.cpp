#include "analysis/map_panels.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace heapsnap {

namespace {

// Of `regions` by what `key` gives for each, ascending by it.
template <typename Key>
MapPanels panels_by(std::span<const HeapRegion> regions, Key key) {
  std::map<decltype(key(regions[0])), uint32_t> numbers;
  for (const HeapRegion& region : regions) numbers.emplace(key(region), 0);
  uint32_t next = 0;
  for (auto& [part, number] : numbers) number = next++;
  MapPanels result;
  result.panels.resize(numbers.size());
  for (const HeapRegion& region : regions) {
    const uint32_t number = numbers.at(key(region));
    result.of_region.push_back(number);
    MapPanel& panel = result.panels[number];
    if (panel.count == 0) panel.range = region.range;
    panel.range.begin = std::min(panel.range.begin, region.range.begin);
    panel.range.end = std::max(panel.range.end, region.range.end);
    panel.arena = region.arena;
    panel.bytes += region.range.size();
    ++panel.count;
    if (region.is_mmapped()) panel.kind = MapPanel::Kind::kMmapped;
  }
  return result;
}

// Mmapped chunks after all arenas.
uint32_t order_of(int32_t arena) {
  return static_cast<uint32_t>(arena);
}

MapPanels panels_by_segment(const HeapModel& heap, std::span<const HeapRegion> regions) {
  MapPanels result = panels_by(regions, [&](const HeapRegion& region) {
    return std::pair(order_of(region.arena),
                     region.is_mmapped() ? Address() : heap.segments[region.segment].range.begin);
  });
  for (size_t i = 0; i < regions.size(); ++i) {
    MapPanel& panel = result.panels[result.of_region[i]];
    if (panel.kind == MapPanel::Kind::kMmapped) continue;
    panel.segment = panel.segments = 0;
    const Address begin = heap.segments[regions[i].segment].range.begin;
    for (const HeapSegment& segment : heap.segments) {
      if (segment.arena != panel.arena) continue;
      ++panel.segments;
      if (segment.range.begin <= begin) ++panel.segment;
    }
  }
  return result;
}

MapPanels panels_by_arena(std::span<const HeapRegion> regions) {
  MapPanels result =
      panels_by(regions, [](const HeapRegion& region) { return order_of(region.arena); });
  for (MapPanel& panel : result.panels) {
    if (panel.kind != MapPanel::Kind::kMmapped) panel.kind = MapPanel::Kind::kArena;
  }
  return result;
}

// The largest arenas, and one panel for the others.
MapPanels panels_of_largest(std::span<const HeapRegion> regions, const MapPanels& all,
                            size_t arenas) {
  std::vector<size_t> order(all.panels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return all.panels[i].kind == MapPanel::Kind::kMmapped; });
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return all.panels[a].bytes > all.panels[b].bytes; });
  std::set<int32_t> others;
  for (size_t i = arenas; i < order.size(); ++i) others.insert(all.panels[order[i]].arena);
  constexpr uint32_t kOthers = UINT32_MAX - 1;  // after the arenas, before mmapped chunks
  MapPanels result = panels_by(regions, [&](const HeapRegion& region) {
    return others.contains(region.arena) ? kOthers : order_of(region.arena);
  });
  for (MapPanel& panel : result.panels) {
    if (panel.kind == MapPanel::Kind::kMmapped) continue;
    panel.kind = MapPanel::Kind::kArena;
    if (!others.contains(panel.arena)) continue;
    panel.kind = MapPanel::Kind::kOtherArenas;
    panel.count = others.size();
  }
  return result;
}

}  // namespace

MapPanels map_panels(const HeapModel& heap, std::span<const HeapRegion> regions, size_t most) {
  std::set<std::pair<int32_t, uint32_t>> parts;
  std::set<int32_t> arenas;
  for (const HeapRegion& region : regions) {
    if (parts.size() <= most) parts.emplace(region.arena, region.segment);
    arenas.insert(region.arena);
  }
  if (parts.size() <= most) return panels_by_segment(heap, regions);
  MapPanels by_arena = panels_by_arena(regions);
  if (by_arena.panels.size() <= most) return by_arena;
  const size_t for_mmapped = arenas.contains(-1) ? 1 : 0;
  return panels_of_largest(regions, by_arena, most - std::min(most, for_mmapped + 1));
}

}  // namespace heapsnap
