// The blocks in use of a tracked process, one by one, with the stack that allocated each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analysis/snapshot_streams.h"
#include "tracker/table_layout.h"

namespace heapsnap {

// See each_live_block().
template <typename Visit>
class LiveBlockSink final : public ChunkSink {
 public:
  LiveBlockSink(const SnapshotMetadata& metadata, Visit visit)
      : word_(word_size(metadata.process.machine)), visit_(visit) {
    for (const ThreadCache& cache : metadata.heap.thread_caches) {
      if (!cache.tcache.is_null()) own_.push_back(cache.tcache - 2 * word_);
    }
    std::sort(own_.begin(), own_.end());
  }

  void on_batch(const ChunkBatch& batch) override {
    Address next = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      const Address chunk = next;
      next += batch.sizes[i];
      if (!is_live(batch.states[i])) continue;
      if (std::binary_search(own_.begin(), own_.end(), chunk)) continue;
      const uint64_t usable = batch.sizes[i] > word_ ? batch.sizes[i] - word_ : 0;
      give(batch.stacks.empty() ? 0 : batch.stacks[i],
           batch.slacks.empty() ? uint8_t{0} : batch.slacks[i], usable);
    }
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    if (is_live(chunk.state)) give(chunk.stack, chunk.slack, chunk.usable);
  }

 private:
  void give(uint32_t stack, uint8_t slack, uint64_t usable) {
    const uint64_t known = slack < tracker::kSlackUnknown ? slack : 0;
    visit_(stack, usable > known ? usable - known : 0, usable);
  }

  unsigned word_;
  Visit visit_;
  std::vector<Address> own_;  // chunks of thread caches, which malloc makes for itself
};

// Calls visit(stack id, requested size, usable size) for each; the caches of threads, which malloc
// makes for itself, are left out.
template <typename Visit>
void each_live_block(const SnapshotStreams& streams, Visit visit) {
  LiveBlockSink<Visit> sink(*streams.metadata, visit);
  streams.read_chunks(sink);
}

}  // namespace heapsnap
