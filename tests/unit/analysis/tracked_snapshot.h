// A snapshot put together by hand whose chunks know their call stacks.
#pragma once

#include <cstdint>
#include <vector>

#include "handmade_snapshot.h"
#include "tracking/call_stacks.h"

namespace heapsnap::test {

struct TrackedSnapshot : HandmadeSnapshot {
  CallStacks stacks;
  std::vector<uint32_t> ids;
  std::vector<uint8_t> slacks;

  void add(uint64_t size, ChunkState state, uint32_t stack, uint8_t slack) {
    chunks.emplace_back(size, state);
    ids.push_back(stack);
    slacks.push_back(slack);
  }
  SnapshotStreams tracked_streams() {
    metadata.heap.arenas.resize(1);
    batches.clear();
    metadata.heap.segments.clear();
    add_segment(0, SegmentKind::kBrk, 0x10000, chunks);
    SnapshotStreams all = streams();
    all.read_chunks = [this](ChunkSink& sink) {
      const Batch& batch = batches.front();
      sink.on_batch({0, 0, batch.begin, batch.sizes, batch.states, ids, slacks});
      for (const MmappedChunk& chunk : mmapped) sink.on_mmapped(chunk);
    };
    return all;
  }

  Chunks chunks;
};

}  // namespace heapsnap::test
