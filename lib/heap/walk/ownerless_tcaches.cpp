#include "heap/walk/ownerless_tcaches.h"

#include <algorithm>

namespace heapsnap {
namespace {

constexpr unsigned kSmallBins = 64;

}  // namespace

TcacheSearch::TcacheSearch(PageCache& cache, const LocatedMalloc& malloc, const HeapAreas& areas,
                           const std::vector<Arena>& arenas, uint32_t instance)
    : cache_(cache),
      malloc_(malloc),
      format_(malloc.layout),
      areas_(areas),
      arenas_(arenas),
      instance_(instance) {
  // request2size(): a chunk gives all of itself but one word.
  const uint64_t needed = malloc.layout.tcache.size + format_.word;
  chunk_size_ = (needed + format_.alignment - 1) & ~(format_.alignment - 1);
}

void TcacheSearch::on_batch(const ChunkBatch& batch) {
  if (arenas_[static_cast<size_t>(batch.arena)].instance != instance_) return;
  Address chunk = batch.begin;
  for (size_t i = 0; i < batch.sizes.size(); ++i) {
    const uint64_t size = batch.sizes[i];
    // More by MINSIZE at most: what was left of a chunk was not split off (see is_tcache()).
    if (size >= chunk_size_ && size <= chunk_size_ + format_.min_size &&
        batch.states[i] == ChunkState::kUsed && found_.size() < kMostFound &&
        is_filled_tcache(chunk + format_.header)) {
      ThreadCache thread;
      thread.tcache = chunk + format_.header;
      thread.arena = batch.arena;
      found_.push_back(thread);
    }
    chunk += size;
  }
}

bool TcacheSearch::is_filled_tcache(Address tcache) const {
  const auto& layout = malloc_.layout.tcache;
  const uint64_t per_bin = malloc_.instance.tcache_count;
  unsigned filled = 0;
  for (unsigned bin = 0; bin < layout.bins; ++bin) {
    const auto head = cache_.word(tcache + layout.entries + bin * format_.word, format_.word);
    uint64_t count = 0;
    const auto bytes = std::as_writable_bytes(std::span(&count, 1)).first(layout.count_size);
    if (!head || cache_.read(tcache + bin * layout.count_size, bytes) != bytes.size()) return false;
    if (layout.counts_down) {
      if (per_bin == 0) {
        count = *head == 0 ? 0 : 1;  // what a full bin would hold is not known
      } else {
        // Bins that are switched off have no slots and no entries.
        if (count > per_bin) return false;
        count = *head == 0 && count == 0 ? 0 : per_bin - count;
      }
    }
    if ((*head == 0) != (count == 0)) return false;
    if (*head == 0) continue;
    ++filled;
    const Address chunk = format_.pointer(*head) - format_.header;
    if (!format_.is_aligned(chunk)) return false;
    const auto field = cache_.word(chunk + format_.word, format_.word);
    if (!field) return false;
    const uint64_t smallest = format_.min_size + std::min(bin, kSmallBins) * format_.alignment;
    const uint64_t size = format_.size_of(*field);
    if (bin < kSmallBins ? size != smallest || areas_.find(chunk) == nullptr : size < smallest) {
      return false;
    }
  }
  return filled != 0;
}

}  // namespace heapsnap
