// The whole heap as few sums, for a page: every pixel represents the same number of bytes.
//
//   regions in ascending order of address, laid out like text:
//     [ segment ................. | segment .......
//      ....... | mmapped chunks . | ... ]
//   one pixel without bytes parts a region from the next.
//
// A pixel says how many of its bytes are used, free, absent (never touched or given back) and in
// swap. The scale is the finest power of two, from 16 bytes on, with which all fits into the
// pixels that there may be, so memory does not grow with the heap.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/snapshot_streams.h"
#include "base/address.h"

namespace heapsnap {

struct HeapCells {
  struct Pixel {
    uint64_t used = 0;  // of used and mmapped chunks, headers included
    uint64_t free = 0;  // of free chunks and tops
    // Of both kinds of bytes, those whose page is in no memory.
    uint64_t absent = 0;
    uint64_t swapped = 0;
    bool operator==(const Pixel&) const = default;
  };
  struct Region {
    AddressRange range;
    uint64_t first_pixel = 0;
    bool operator==(const Region&) const = default;
  };

  unsigned width = 0;
  unsigned height = 0;
  uint64_t bytes_per_pixel = 0;
  std::vector<Region> regions;
  std::vector<Pixel> pixels;  // width * height, row by row
};

// `max_height` rows of `width` pixels at most. A heap without chunks gives a picture of height 0.
HeapCells sum_heap_cells(const SnapshotStreams& streams, unsigned width, unsigned max_height);

}  // namespace heapsnap
