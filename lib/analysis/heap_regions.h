// The stretches of memory that malloc's heaps consist of: the segments of all arenas, and the
// mappings of mmapped chunks.
//
//   0x55…  [ segment of the main arena ]
//   0x7f…  [ segment of arena 1 ]   [ mmapped ][ mmapped ]   [ segment of arena 2 ]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/snapshot_streams.h"
#include "base/address.h"

namespace heapsnap {

struct HeapRegion {
  AddressRange range;
  int32_t arena = -1;    // -1: an mmapped chunk
  uint32_t segment = 0;  // index into HeapModel::segments, unless it is an mmapped chunk
  bool operator==(const HeapRegion&) const = default;

  bool is_mmapped() const { return arena < 0; }
};

// In ascending order of address, without empty ones. Where damage made regions overlap, each byte
// belongs to the one that begins first.
std::vector<HeapRegion> heap_regions(const SnapshotStreams& streams);

// What of `regions` lies in one of `ranges`, in the same order.
std::vector<HeapRegion> regions_within(std::span<const HeapRegion> regions,
                                       std::span<const AddressRange> ranges);

}  // namespace heapsnap
