#include "heap/free_links.h"

#include <algorithm>
#include <cstring>

#include "heap/corruption_log.h"
#include "heap/heap_model.h"
#include "heap/segment_walk.h"
#include "heap/sorted_addresses.h"

namespace heapsnap {

FreeLinks::FreeLinks(Target& target, PageCache& cache, const MallocLayout& layout,
                     const HeapAreas& areas, int32_t arena, bool is_main, bool with_fast)
    : layout_(layout), format_(layout), cache_(cache), areas_(areas), arena_(arena) {
  // Bins of sizes from two headers on (fastbin_index()).
  const unsigned bins = layout.state.fastbin_count;
  if (with_fast && bins != 0) largest_fast_ = (bins + 1) * format_.header;
  SortedAddresses nothing;
  nothing.finish();
  std::vector<HeapSegment> segments;
  std::vector<uint64_t> unknown(static_cast<size_t>(arena) + 1);
  CorruptionLog log;  // the walk proper will meet the same damage
  SegmentWalk walk(target, cache, SortedAddresses::Cursor(nothing), *this, segments, unknown, log);
  walk.give_batches_in_window();
  walk_ = &walk;
  for (const HeapArea& area : areas.all()) {
    if (area.arena != arena) continue;
    walk.walk(area, format_, is_main);
  }
  walk_ = nullptr;
}

void FreeLinks::on_batch(const ChunkBatch& batch) {
  Address chunk = batch.begin;
  for (size_t i = 0; i < batch.sizes.size(); ++i) {
    const uint64_t size = batch.sizes[i];
    switch (batch.states[i]) {
      case ChunkState::kSmallbin:
      case ChunkState::kLargebin: keep_free(chunk); break;
      case ChunkState::kUsed:
        if (size <= largest_fast_) keep_fast(chunk, size);
        break;
      default: break;
    }
    chunk += size;
  }
}

std::optional<uint64_t> FreeLinks::read_forward(Address chunk) {
  const Address at = chunk + format_.header;
  const MemoryWindow& window = walk_->window();
  // Of each window's chunks one, at most, lies before it.
  if (!window.holds(at, format_.word)) return cache_.word(at, format_.word);
  uint64_t forward = 0;
  std::memcpy(&forward, window.data() + (at - window.begin()), format_.word);
  return forward;
}

void FreeLinks::keep_free(Address chunk) {
  if (free_count_ == kMostLinks) return;
  const auto forward = read_forward(chunk);
  if (!forward) return;
  ++free_count_;
  chunks_.push_back(chunk.value());
  forward_.push_back(*forward);
  fast_words_.push_back(0);
}

// Most used chunks are sorted out here: what they begin with is no address of this arena.
void FreeLinks::keep_fast(Address chunk, uint64_t size) {
  if (chunks_.size() - free_count_ == kMostLinks) return;
  const auto forward = read_forward(chunk);
  if (!forward) return;
  const uint64_t mask = layout_.safe_linking ? (chunk + format_.header).value() >> 12 : 0;
  const Address next = format_.pointer(*forward ^ mask);
  if (!format_.is_aligned(next)) return;
  const HeapArea* const area = areas_.find(next);
  if (area == nullptr || area->arena != arena_) return;
  chunks_.push_back(chunk.value());
  forward_.push_back(*forward);
  fast_words_.push_back(static_cast<uint8_t>(size / format_.word));
}

std::optional<FreeLinks::Link> FreeLinks::find(Address chunk) const {
  const auto found = std::lower_bound(chunks_.begin(), chunks_.end(), chunk.value());
  if (found == chunks_.end() || *found != chunk.value()) return std::nullopt;
  const auto i = static_cast<size_t>(found - chunks_.begin());
  return Link{forward_[i], uint64_t{fast_words_[i]} * format_.word};
}

}  // namespace heapsnap
