#include "analysis/chunk_census.h"

#include <algorithm>
#include <tuple>

namespace heapsnap {

namespace {

constexpr size_t kCommonSizes = 10;

using Kind = SizeClasses::Kind;

// Top, fences and what the walk could not read are no blocks that anybody asked for.
constexpr Kind kind_of(ChunkState state) {
  if (is_live(state)) return Kind::kUsed;
  return is_free(state) && state != ChunkState::kTop ? Kind::kFree : Kind::kNeither;
}

// A table, because states change at random from chunk to chunk: a branch would be mispredicted.
constexpr std::array<Kind, 256> kKinds = [] {
  std::array<Kind, 256> kinds{};
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = kind_of(static_cast<ChunkState>(i));
  return kinds;
}();

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
    const Kind kind = kKinds[static_cast<uint8_t>(batch.states[i])];
    classes_.add(size, kind);
    if (size > small_[kind]) [[unlikely]] {
      note_large({chunk + header_, size, batch.states[i], batch.arena}, kind);
    }
    chunk += size;
  }
}

void ChunkCensus::on_mmapped(const MmappedChunk& chunk) {
  const Kind kind = kind_of(chunk.state);
  classes_.add(chunk.total, kind);
  note_large({chunk.chunk + header_, chunk.total, chunk.state, -1}, kind);
}

void ChunkCensus::note_large(const LargeChunk& chunk, Kind kind) {
  if (kind == Kind::kNeither) return;
  if (chunk.state == ChunkState::kUsed && chunk.size >= kFirstMmapThreshold) {
    large_used_.add(chunk.size);
    large_runs_.add_used(chunk.size);
  }
  LargestChunks& largest = largest_[kind];
  if (chunk.size > largest.threshold()) largest.add(chunk);
  small_[kind] = std::min(largest.threshold(), kFirstMmapThreshold - 1);
}

void ChunkCensus::finish(HeapSummary& summary) && {
  summary.size_classes = classes_.by_power();
  summary.common_sizes = classes_.most_used(kCommonSizes);
  summary.used_sizes = classes_.all_used();
  summary.largest_used = std::move(largest_[Kind::kUsed]).sorted();
  summary.largest_free = std::move(largest_[Kind::kFree]).sorted();
  summary.large_used = large_used_;
}

}  // namespace heapsnap
