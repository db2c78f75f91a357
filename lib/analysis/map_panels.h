// What a picture of the heap shows apart from each other, each part under a title of its own.
//
//   few segments        many segments            more arenas than there is room for titles
//   main arena          main arena               main arena
//   arena 1, segment 1  arena 1, 14 segments     arena 7
//   arena 1, segment 2  arena 2, 9 segments      94 other arenas
//   3 mmapped chunks    3 mmapped chunks         3 mmapped chunks
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/heap_regions.h"
#include "heap/heap_model.h"

namespace heapsnap {

struct MapPanel {
  enum class Kind : uint8_t { kSegment, kArena, kOtherArenas, kMmapped };
  Kind kind = Kind::kSegment;
  int32_t arena = -1;       // of kSegment and kArena
  uint64_t segment = 0;     // of kSegment: which of the arena's, from 1 on
  uint64_t segments = 0;    // of kSegment: that the arena has
  uint64_t count = 0;       // segments of kArena, arenas of kOtherArenas, mmapped chunks
  AddressRange range = {};  // from the lowest to the highest address
  uint64_t bytes = 0;       // of its regions
};

struct MapPanels {
  std::vector<MapPanel> panels;
  std::vector<uint32_t> of_region;  // index into `panels`, as the regions
};

// In as many panels as there may be, `most` >= 2, arenas by their numbers; mmapped chunks are the
// last one. The arenas with the least memory are put together first.
MapPanels map_panels(const HeapModel& heap, std::span<const HeapRegion> regions, size_t most);

}  // namespace heapsnap
