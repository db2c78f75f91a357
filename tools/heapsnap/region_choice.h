// What of a heap the user wants to see: --region.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analysis/heap_regions.h"
#include "snapshot/metadata.h"

namespace heapsnap {

struct ChosenRegions {
  std::vector<HeapRegion> regions;
  std::string name;  // as the user would say it; empty: the whole heap
};

// `text`:
//
//   ""                  all
//   arena 3             all segments of arena 3; "main arena" is arena 0
//   mmapped             all mmapped chunks
//   0x7f0123456780      the segment or the mmapped chunk that holds the address
//   0x7f00-0x8f00       what of the heap lies between, as /proc/PID/maps writes it
//   [heap], /memfd:x    the same of the mappings of that name
//
// Throws Error{kUsage} when there is no such part, or no heap in it.
ChosenRegions choose_regions(const SnapshotMetadata& metadata, std::vector<HeapRegion> all,
                             const std::string& text);

}  // namespace heapsnap
