#include "heap/free_links.h"

#include <algorithm>
#include <cstring>

#include "heap/corruption_log.h"
#include "heap/heap_model.h"
#include "heap/segment_walk.h"
#include "heap/sorted_addresses.h"

namespace heapsnap {

FreeLinks::FreeLinks(Target& target, PageCache& cache, const HeapAreas& areas, int32_t arena,
                     const ChunkFormat& format, bool is_main)
    : format_(format), window_(target) {
  SortedAddresses nothing;
  nothing.finish();
  std::vector<HeapSegment> segments;
  std::vector<uint64_t> unknown(static_cast<size_t>(arena) + 1);
  CorruptionLog log;  // the walk proper will meet the same damage
  SegmentWalk walk(target, cache, SortedAddresses::Cursor(nothing), *this, segments, unknown, log);
  for (const HeapArea& area : areas.all()) {
    if (area.arena != arena) continue;
    area_end_ = area.system.end;
    walk.walk(area, format, is_main);
  }
}

void FreeLinks::on_batch(const ChunkBatch& batch) {
  Address chunk = batch.begin;
  for (size_t i = 0; i < batch.sizes.size() && links_.size() < kMostLinks; ++i) {
    const ChunkState state = batch.states[i];
    if (state == ChunkState::kSmallbin || state == ChunkState::kLargebin) {
      const Address at = chunk + format_.header;
      if (window_.holds(at, format_.word) || window_.move_to(at, area_end_) >= format_.word) {
        Link link{chunk.value(), 0};
        std::memcpy(&link.forward, window_.data() + (at - window_.begin()), format_.word);
        links_.push_back(link);
      }
    }
    chunk += batch.sizes[i];
  }
}

std::optional<uint64_t> FreeLinks::forward(Address chunk) const {
  const auto found =
      std::lower_bound(links_.begin(), links_.end(), chunk.value(),
                       [](const Link& link, uint64_t wanted) { return link.chunk < wanted; });
  if (found == links_.end() || found->chunk != chunk.value()) return std::nullopt;
  return found->forward;
}

}  // namespace heapsnap
