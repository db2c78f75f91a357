#include "analysis/chunk_lookup.h"

#include <algorithm>

namespace heapsnap {

namespace {

class ChunkLookup final : public ChunkSink {
 public:
  ChunkLookup(const SnapshotMetadata& metadata, Address at)
      : word_(word_size(metadata.process.machine)), at_(at) {}

  void on_batch(const ChunkBatch& batch) override {
    Address next = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      const AddressRange range{next, next + batch.sizes[i]};
      next = range.end;
      const bool is_live_block = is_live(batch.states[i]);
      // The block of a chunk in use ends a word later and begins behind the word of the one before.
      const uint64_t taken = ends_in_use_ == range.begin ? word_ : 0;
      ends_in_use_ = is_live_block ? range.end : Address();
      const AddressRange owned{range.begin + std::min(taken, range.size()),
                               is_live_block ? range.end + word_ : range.end};
      if (!owned.contains(at_)) continue;
      FoundChunk& chunk = found.emplace();
      chunk.range = range;
      chunk.size = range.size();
      chunk.state = batch.states[i];
      const bool has_header = chunk.state != ChunkState::kUnknown;
      const uint64_t header = has_header ? std::min(uint64_t{2} * word_, range.size()) : 0;
      chunk.pointer = range.begin + header;
      chunk.usable = range.size() - header + (is_live_block ? word_ : 0);
      chunk.arena = batch.arena;
      if (!batch.stacks.empty()) chunk.stack = batch.stacks[i];
      if (!batch.slacks.empty()) chunk.slack = batch.slacks[i];
    }
  }

  void on_mmapped(const MmappedChunk& mmapped) override {
    const AddressRange range{mmapped.mapping_begin, mmapped.mapping_begin + mmapped.total};
    if (!range.contains(at_)) return;
    FoundChunk& chunk = found.emplace();
    chunk.range = range;
    chunk.pointer = mmapped.chunk + 2 * word_;
    chunk.size = mmapped.size;
    chunk.usable = mmapped.usable;
    chunk.state = mmapped.state;
    chunk.stack = mmapped.stack;
    chunk.slack = mmapped.slack;
  }

  std::optional<FoundChunk> found;

 private:
  unsigned word_;
  Address at_;
  Address ends_in_use_;  // end of the chunk before, if that is in use
};

}  // namespace

std::optional<FoundChunk> find_chunk(const SnapshotStreams& streams, Address at) {
  ChunkLookup lookup(*streams.metadata, at);
  streams.read_chunks(lookup);
  if (lookup.found) {
    const auto& caches = streams.metadata->heap.thread_caches;
    lookup.found->is_thread_cache =
        is_live(lookup.found->state) &&
        std::any_of(caches.begin(), caches.end(), [&](const ThreadCache& cache) {
          return cache.tcache == lookup.found->pointer;
        });
  }
  return lookup.found;
}

}  // namespace heapsnap
