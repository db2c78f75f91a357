#include "analysis/memory_in_use.h"

#include <algorithm>
#include <vector>

#include "analysis/snapshot_blocks.h"

namespace heapsnap {

Tally memory_in_use(const SnapshotStreams& streams, bool has_references) {
  std::vector<AddressRange> pages;  // ascending, in blocks of malloc
  Tally in_use;
  if (!has_references) {
    const RuntimeModel& model = streams.metadata->runtimes;
    for (const RuntimePages& each : model.pages) in_use += {each.used_slots, 0};
    for (const RuntimeArea& area : model.areas) {
      if (area.is_transient) continue;
      in_use += {0, area.used.bytes};
      if (area.is_in_malloc) pages.push_back(area.range);
    }
  }
  // Small blocks fit between the pages of Ruby's areas, which end some bytes before a multiple of
  // their size.
  constexpr uint64_t kLeastPage = 4096;
  const auto holds_pages = [&pages](const SnapshotBlock& block) {
    if (block.usable < kLeastPage) return false;
    const auto next =
        std::upper_bound(pages.begin(), pages.end(), block.address,
                         [](Address at, const AddressRange& range) { return at < range.end; });
    return next != pages.end() && next->begin < block.address + block.usable;
  };
  each_snapshot_block(streams, [&](const SnapshotBlock& block) {
    if (!block.is_mallocs_own && !holds_pages(block)) in_use.add(block.usable);
  });
  return in_use;
}

}  // namespace heapsnap
