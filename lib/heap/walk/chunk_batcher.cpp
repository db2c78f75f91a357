#include "heap/walk/chunk_batcher.h"

namespace heapsnap {

ChunkBatcher::ChunkBatcher(ChunkSink& sink, std::vector<HeapSegment>& segments)
    : sink_(sink), segments_(segments), sizes_(kBatch), states_(kBatch) {}

void ChunkBatcher::open_segment(Address begin, int32_t arena, SegmentKind kind) {
  segments_.push_back({{begin, begin}, arena, kind, 0});
  at_ = begin_ = begin;
}

HeapSegment& ChunkBatcher::close_segment() {
  flush();
  segments_.back().range.end = at_;
  return segments_.back();
}

void ChunkBatcher::flush() {
  if (count_ == 0) return;
  sink_.on_batch({segments_.back().arena, static_cast<uint32_t>(segments_.size() - 1), begin_,
                  std::span(sizes_).first(count_), std::span(states_).first(count_)});
  count_ = 0;
  begin_ = at_;
}

}  // namespace heapsnap
