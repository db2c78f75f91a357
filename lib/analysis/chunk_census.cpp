#include "analysis/chunk_census.h"

#include <algorithm>
#include <tuple>

namespace heapsnap {

namespace {

constexpr size_t kCommonSizes = 10;

// Top, fences and what the walk could not read are no blocks that anybody asked for.
constexpr bool is_counted(ChunkState state) {
  return is_live(state) || (is_free(state) && state != ChunkState::kTop);
}

bool is_larger(const LargeChunk& a, const LargeChunk& b) {
  return std::tuple(a.size, b.pointer) > std::tuple(b.size, a.pointer);
}

}  // namespace

void LargestChunks::add(const LargeChunk& chunk) {
  if (heap_.size() == kCount) {
    std::pop_heap(heap_.begin(), heap_.end(), is_larger);
    heap_.pop_back();
  }
  heap_.push_back(chunk);
  std::push_heap(heap_.begin(), heap_.end(), is_larger);
  if (heap_.size() == kCount) threshold_ = heap_.front().size;
}

std::vector<LargeChunk> LargestChunks::sorted() && {
  std::sort(heap_.begin(), heap_.end(), is_larger);
  return std::move(heap_);
}

void ChunkCensus::on_batch(const ChunkBatch& batch) {
  Address chunk = batch.begin;
  for (size_t i = 0; i < batch.sizes.size(); ++i) {
    const uint64_t size = batch.sizes[i];
    const ChunkState state = batch.states[i];
    if (is_counted(state)) {
      const bool used = is_live(state);
      classes_.add(size, used);
      if (used && size >= kFirstMmapThreshold) large_used_.add(size);
      LargestChunks& largest = used ? largest_used_ : largest_free_;
      if (size > largest.threshold()) largest.add({chunk + header_, size, state, batch.arena});
    }
    chunk += size;
  }
}

void ChunkCensus::on_mmapped(const MmappedChunk& chunk) {
  const bool used = is_live(chunk.state);
  classes_.add(chunk.total, used);
  LargestChunks& largest = used ? largest_used_ : largest_free_;
  if (chunk.total > largest.threshold()) {
    largest.add({chunk.chunk + header_, chunk.total, chunk.state, -1});
  }
}

void ChunkCensus::finish(HeapSummary& summary) && {
  summary.size_classes = classes_.by_power();
  summary.common_sizes = classes_.most_used(kCommonSizes);
  summary.largest_used = std::move(largest_used_).sorted();
  summary.largest_free = std::move(largest_free_).sorted();
  summary.large_used = large_used_;
}

}  // namespace heapsnap
