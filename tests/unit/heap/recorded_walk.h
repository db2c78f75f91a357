// What a walk emits and returns, kept for comparison.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "heap/walk/heap_walker.h"
#include "tests/unit/heap/flat_target.h"
#include "tests/unit/heap/synthetic_heap.h"

namespace heapsnap {

inline doctest::String toString(const ExpectedChunk& chunk) {
  return (std::to_string(chunk.at.value()) + "+" + std::to_string(chunk.size) + " " +
          to_string(chunk.state))
      .c_str();
}

class RecordingSink final : public ChunkSink {
 public:
  void on_batch(const ChunkBatch& batch) override {
    REQUIRE(batch.sizes.size() == batch.states.size());
    REQUIRE(!batch.sizes.empty());
    Address at = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      chunks.push_back({at, batch.sizes[i], batch.states[i]});
      segments.push_back(batch.segment);
      arenas.push_back(batch.arena);
      at += batch.sizes[i];
    }
  }
  void on_mmapped(const MmappedChunk& chunk) override { mmapped.push_back(chunk); }

  std::vector<ExpectedChunk> chunks;
  std::vector<uint32_t> segments;  // of each chunk
  std::vector<int32_t> arenas;
  std::vector<MmappedChunk> mmapped;
};

struct RecordedWalk {
  RecordingSink sink;
  HeapModel model;

  RecordedWalk(Target& target, const std::vector<LocatedMalloc>& mallocs)
      : model(walk_heaps(target, mallocs, sink)) {}
  // Walks it both ways: memory that is read, and memory that passes are made over.
  explicit RecordedWalk(SyntheticHeap& heap) : RecordedWalk(heap.target, {heap.located()}) {
    FlatTarget flat(heap.target);
    require_same(RecordedWalk(flat, {heap.located()}));
  }

  void require_same(const RecordedWalk& other) const {
    REQUIRE(sink.chunks == other.sink.chunks);
    REQUIRE(sink.segments == other.sink.segments);
    REQUIRE(mmapped_headers() == other.mmapped_headers());
    REQUIRE(model.corruptions.size() == other.model.corruptions.size());
    for (size_t i = 0; i < model.corruptions.size(); ++i) {
      REQUIRE(model.corruptions[i].what == other.model.corruptions[i].what);
    }
  }

  bool has_complaint(const std::string& part) const {
    for (const Corruption& corruption : model.corruptions) {
      if (corruption.what.find(part) != std::string::npos) return true;
    }
    return false;
  }
  std::vector<Address> mmapped_headers() const {
    std::vector<Address> headers;
    for (const MmappedChunk& chunk : sink.mmapped) headers.push_back(chunk.chunk);
    return headers;
  }
  uint64_t count(ChunkState state) const {
    uint64_t count = 0;
    for (const ExpectedChunk& chunk : sink.chunks) count += chunk.state == state;
    return count;
  }
};

// All complaints in one text, for CHECK(complaints(walk) == "").
inline std::string complaints(const RecordedWalk& walk) {
  std::string all;
  for (const Corruption& corruption : walk.model.corruptions) all += corruption.what + "\n";
  return all;
}

// What every walk owes, of a sound heap or of any bytes: chunks in ascending order that lie inside
// their segment and end to end, segments that belong to their arena.
inline void check_shape(const RecordedWalk& walk) {
  const RecordingSink& sink = walk.sink;
  for (size_t i = 0; i < sink.chunks.size(); ++i) {
    REQUIRE(sink.segments[i] < walk.model.segments.size());
    const HeapSegment& segment = walk.model.segments[sink.segments[i]];
    REQUIRE(segment.arena == sink.arenas[i]);
    REQUIRE(segment.range.contains(sink.chunks[i].at, sink.chunks[i].size));
    REQUIRE(sink.chunks[i].size != 0);
    if (i == 0) continue;
    const Address end = sink.chunks[i - 1].at + sink.chunks[i - 1].size;
    if (sink.segments[i] == sink.segments[i - 1]) {
      REQUIRE(sink.chunks[i].at == end);
    } else {
      REQUIRE(sink.chunks[i].at >= end);
      REQUIRE(sink.segments[i] > sink.segments[i - 1]);
    }
  }
}

}  // namespace heapsnap
