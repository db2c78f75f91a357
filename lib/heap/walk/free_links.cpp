#include "heap/walk/free_links.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "heap/corruption_log.h"
#include "heap/heap_model.h"
#include "heap/walk/segment_walk.h"
#include "heap/walk/sorted_addresses.h"

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
  SegmentWalk walk(target, nullptr, cache, SortedAddresses::Cursor(nothing), *this, segments,
                   unknown, log);
  walk.give_batches_in_window();
  walk_ = &walk;
  // Address space, of which only what is kept becomes memory.
  places_.reserve(kMostLinks);
  forward_.reserve(kMostLinks);
  fast_words_.reserve(kMostLinks);
  for (const HeapArea& area : areas.all()) {
    if (area.arena != arena) continue;
    if (base_.is_null()) base_ = area.system.begin.align_down(format_.alignment);
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

bool FreeLinks::keep(Address chunk, Address forward, uint64_t fast_size) {
  const uint64_t place = (chunk - base_) / format_.alignment;
  const auto distance = static_cast<int64_t>(forward - chunk);
  const int64_t steps = distance / static_cast<int64_t>(format_.alignment);
  if (place > std::numeric_limits<uint32_t>::max() || steps != static_cast<int32_t>(steps) ||
      steps * static_cast<int64_t>(format_.alignment) != distance) {
    return false;
  }
  places_.push_back(static_cast<uint32_t>(place));
  forward_.push_back(static_cast<int32_t>(steps));
  if (largest_fast_ != 0) fast_words_.push_back(static_cast<uint8_t>(fast_size / format_.word));
  return true;
}

void FreeLinks::keep_free(Address chunk) {
  if (places_.size() == kMostLinks) return;
  const auto forward = read_forward(chunk);
  if (forward) keep(chunk, format_.pointer(*forward), 0);
}

// Most used chunks are sorted out here: what they begin with is no address of this arena.
void FreeLinks::keep_fast(Address chunk, uint64_t size) {
  if (places_.size() == kMostLinks || fast_count_ == kMostLinks / 2) return;
  const auto forward = read_forward(chunk);
  if (!forward) return;
  const uint64_t mask = layout_.safe_linking ? (chunk + format_.header).value() >> 12 : 0;
  const Address next = format_.pointer(*forward ^ mask);
  if (!format_.is_aligned(next)) return;
  const HeapArea* const area = areas_.find(next);
  if (area != nullptr && area->arena == arena_ && keep(chunk, next, size)) ++fast_count_;
}

std::optional<FreeLinks::Link> FreeLinks::find(Address chunk) const {
  const uint64_t place = (chunk - base_) / format_.alignment;
  if (chunk < base_ || !format_.is_aligned(chunk)) return std::nullopt;
  // From the last one on in steps that double, then by halves.
  size_t from = last_ < places_.size() && places_[last_] <= place ? last_ : 0;
  size_t step = 1;
  for (; from + step < places_.size() && places_[from + step] < place; step *= 2) from += step;
  const auto begin = places_.begin() + static_cast<ptrdiff_t>(from);
  const auto end =
      places_.begin() + static_cast<ptrdiff_t>(std::min(from + step + 1, places_.size()));
  const auto found = std::lower_bound(begin, end, place);
  if (found == end || *found != place) return std::nullopt;
  last_ = static_cast<size_t>(found - places_.begin());
  const auto distance = static_cast<uint64_t>(int64_t{forward_[last_]}) * format_.alignment;
  const uint64_t words = largest_fast_ != 0 ? fast_words_[last_] : 0;
  return Link{chunk + distance, words * format_.word};
}

}  // namespace heapsnap
