// What lies in each square of a map of the heap: how many bytes of which class.
//
// A map may be longer than memory is wide, so it is painted in bands of consecutive squares; each
// band takes a pass over the chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/heap_map.h"
#include "analysis/map_classes.h"
#include "analysis/page_states.h"
#include "analysis/snapshot_streams.h"

namespace heapsnap {

// Consecutive squares with their bytes by class.
class MapBand {
 public:
  static constexpr size_t kMostSquares = size_t{1} << 20;

  // `count` squares of `map` from `first` on, kMostSquares at most.
  MapBand(const HeapMap& map, size_t classes, uint64_t first, size_t count);

  uint64_t first() const { return first_; }
  size_t count() const { return begins_.size(); }
  bool contains(uint64_t square) const { return square - first_ < begins_.size(); }

  // By class, in units of scale >> 31 bytes, rounded up, where a square has more than that many.
  // All 0 in a gap.
  std::span<const uint32_t> bytes_in(uint64_t square) const {
    return std::span(bytes_).subspan((square - first_) * classes_, classes_);
  }
  // Whether a chunk begins in it.
  bool begins_chunk(uint64_t square) const { return begins_[square - first_]; }

  // `bytes` > 0.
  void add(uint64_t square, uint8_t of_class, uint64_t bytes) {
    uint32_t& sum = bytes_[(square - first_) * classes_ + of_class];
    const uint64_t more = sum + ((bytes - 1) >> unit_shift_) + 1;
    // Only chunks that overlap, in a damaged heap, can exceed it.
    sum = more > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(more);
  }
  void begin_chunk(uint64_t square) { begins_[square - first_] = true; }

 private:
  size_t classes_;
  uint64_t first_;
  unsigned unit_shift_;
  std::vector<uint32_t> bytes_;
  std::vector<bool> begins_;
};

struct MapFigures {
  std::vector<uint64_t> classes;  // bytes, as MapClasses::list()
  struct Panel {
    uint64_t in_use = 0;
    uint64_t free = 0;
  };
  std::vector<Panel> panels;  // as HeapMap::panels()
};

// Fills the band, and adds up the bytes of all squares, whether in it or not. `max_page_runs`
// bounds the memory; a test makes it small.
MapFigures paint_band(const SnapshotStreams& streams, const MapClasses& classes, const HeapMap& map,
                      MapBand& band, size_t max_page_runs = PageStates::kMaxRuns);

}  // namespace heapsnap
