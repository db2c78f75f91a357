#include "tracking/tracker_memory.h"

#include <algorithm>

#include "tracking/table_reader.h"

namespace heapsnap {

std::vector<AddressRange> tracker_memory(MemoryReader& memory,
                                         const tracker::Directory& directory) {
  TableReader regions(memory, directory.regions, sizeof(tracker::Region));
  std::vector<AddressRange> listed;
  if (regions.is_damaged()) return listed;
  regions.each<tracker::Region>(kMostTrackerRanges, [&](uint64_t, const tracker::Region& region) {
    const bool is_sound = region.kind != 0 && region.size != 0 && region.size <= ~region.address;
    if (!is_sound) return;
    listed.push_back({Address(region.address), Address(region.address + region.size)});
  });
  std::sort(listed.begin(), listed.end());
  std::vector<AddressRange> merged;
  for (const AddressRange& range : listed) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

}  // namespace heapsnap
