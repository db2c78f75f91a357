// Gathers chunks into batches for a sink, and records the segments that they are in.
//
// Chunks of one segment lie end to end, so the batcher knows where each is from their sizes alone;
// a hole means another segment.
#pragma once

#include <cstdint>
#include <vector>

#include "heap/chunk.h"
#include "heap/heap_model.h"

namespace heapsnap {

class ChunkBatcher {
 public:
  static constexpr size_t kBatch = 4096;  // chunks, at most

  // Both must outlive the batcher. Segments are appended to `segments`.
  ChunkBatcher(ChunkSink& sink, std::vector<HeapSegment>& segments);

  void open_segment(Address begin, int32_t arena, SegmentKind kind);
  // Gives what is out to the sink. The segment's system_bytes are the caller's to fill in.
  HeapSegment& close_segment();
  int64_t segment() const { return static_cast<int64_t>(segments_.size()) - 1; }

  // Where the next chunk begins.
  Address at() const { return at_; }
  void push(uint64_t size, ChunkState state) {
    if (count_ == kBatch) flush();
    sizes_[count_] = size;
    states_[count_] = state;
    ++count_;
    at_ += size;
  }
  void flush();

  // The state of the chunk pushed last, to be corrected; nullptr if the sink already has the chunk,
  // which is possible only after another push or flush.
  ChunkState* last_state() { return count_ == 0 ? nullptr : &states_[count_ - 1]; }
  uint64_t last_size() const { return count_ == 0 ? 0 : sizes_[count_ - 1]; }

  // For a loop that has no time for push(): the places behind `count` chunks, up to kBatch. It says
  // how many it filled and where the next chunk begins.
  uint64_t* sizes() { return sizes_.data(); }
  ChunkState* states() { return states_.data(); }
  size_t count() const { return count_; }
  void set_filled(size_t count, Address at) {
    count_ = count;
    at_ = at;
  }

 private:
  ChunkSink& sink_;
  std::vector<HeapSegment>& segments_;
  Address at_;
  Address begin_;  // of the batch
  size_t count_ = 0;
  std::vector<uint64_t> sizes_;
  std::vector<ChunkState> states_;
};

}  // namespace heapsnap
