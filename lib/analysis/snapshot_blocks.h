// The blocks of a snapshot, one by one, with the numbers that references know them by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analysis/snapshot_streams.h"
#include "references/reference.h"

namespace heapsnap {

struct SnapshotBlock {
  BlockNumber number = 0;
  Address address;              // what malloc returned
  uint64_t usable = 0;          // bytes
  uint32_t stack = 0;           // of a tracked process; 0: none that is known
  uint8_t slack = 0;            // of a tracked process: bytes not asked for, as the tracker counts
  bool is_mallocs_own = false;  // the cache of a thread: nobody asked for it
};

// See each_snapshot_block().
template <typename Visit>
class SnapshotBlockSink final : public ChunkSink {
 public:
  SnapshotBlockSink(const SnapshotMetadata& metadata, Visit visit)
      : word_(word_size(metadata.process.machine)), visit_(visit) {
    for (const ThreadCache& cache : metadata.heap.thread_caches) {
      if (!cache.tcache.is_null()) own_.push_back(cache.tcache);
    }
    std::sort(own_.begin(), own_.end());
  }

  void on_batch(const ChunkBatch& batch) override {
    Address next = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      const Address chunk = next;
      next += batch.sizes[i];
      if (!is_live(batch.states[i])) continue;
      const uint64_t usable = batch.sizes[i] > word_ ? batch.sizes[i] - word_ : 0;
      give(chunk + 2 * word_, usable, batch.stacks.empty() ? 0 : batch.stacks[i],
           batch.slacks.empty() ? uint8_t{0} : batch.slacks[i]);
    }
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    if (!is_live(chunk.state)) return;
    give(chunk.chunk + 2 * word_, chunk.usable, chunk.stack, chunk.slack);
  }

 private:
  void give(Address address, uint64_t usable, uint32_t stack, uint8_t slack) {
    const bool is_own = std::binary_search(own_.begin(), own_.end(), address);
    visit_(SnapshotBlock{next_++, address, usable, stack, slack, is_own});
  }

  unsigned word_;
  Visit visit_;
  BlockNumber next_ = 0;
  std::vector<Address> own_;
};

// Calls visit(block) for each, in ascending order of numbers.
template <typename Visit>
void each_snapshot_block(const SnapshotStreams& streams, Visit visit) {
  SnapshotBlockSink<Visit> sink(*streams.metadata, visit);
  streams.read_chunks(sink);
}

}  // namespace heapsnap
