#include "tracking/tracker_memory.h"

#include <algorithm>

#include "tracking/table_reader.h"

namespace heapsnap {

namespace {

// Pages with the instructions that hooks have displaced. Of a hook that was preloaded it is a page
// of the allocator's own code.
void add_hook_pages(MemoryReader& memory, const tracker::Directory& directory,
                    std::vector<AddressRange>& ranges) {
  constexpr uint32_t kMostHooks = 64;
  constexpr uint64_t kPage = 4096;
  if (directory.hook_entry_size != sizeof(tracker::HookEntry)) return;
  for (uint32_t i = 0; i < std::min(directory.hook_count, kMostHooks); ++i) {
    const auto hook = memory.read_value<tracker::HookEntry>(Address(directory.hooks) +
                                                            i * sizeof(tracker::HookEntry));
    const auto code = hook ? memory.read_value<uint64_t>(Address(hook->original)) : std::nullopt;
    if (!code || *code < kPage || *code > ~kPage) continue;
    const Address page = Address(*code).align_down(kPage);
    ranges.push_back({page, page + kPage});
  }
}

}  // namespace

std::vector<AddressRange> tracker_memory(MemoryReader& memory,
                                         const tracker::Directory& directory) {
  TableReader regions(memory, directory.regions, sizeof(tracker::Region));
  std::vector<AddressRange> listed;
  if (regions.is_damaged()) return listed;
  regions.each<tracker::Region>(kMostTrackerRanges, [&](uint64_t, const tracker::Region& region) {
    const bool is_sound = region.kind != 0 && region.kind != tracker::kRegionVacant &&
                          region.size != 0 && region.size <= ~region.address;
    if (!is_sound) return;
    listed.push_back({Address(region.address), Address(region.address + region.size)});
  });
  add_hook_pages(memory, directory, listed);
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
