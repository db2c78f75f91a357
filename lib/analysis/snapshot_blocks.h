// The blocks of a snapshot, one by one, with the numbers that references know them by: live chunks,
// then the used slots of language runtimes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analysis/snapshot_streams.h"
#include "references/reference.h"

namespace heapsnap {

struct SnapshotBlock {
  BlockNumber number = 0;
  Address address;       // what malloc returned
  uint64_t usable = 0;   // bytes
  uint32_t stack = 0;    // of a tracked process; 0: none that is known
  uint8_t slack = 0;     // of a tracked process: bytes not asked for, as the tracker counts
  bool is_slot = false;  // of a runtime's page: no block of malloc
  // Nobody asked for it: the cache of a thread, the page of a runtime, whose slots are blocks, or
  // Ruby's transient heap.
  bool is_mallocs_own = false;
};

// How many of the blocks, the last ones, are slots of language runtimes.
inline BlockNumber slots_of(const SnapshotStreams& streams) {
  const auto& references = streams.metadata->references;
  return references ? references->slots : 0;
}

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
    for (const RuntimeArea& area : metadata.runtimes.areas) {
      if (area.is_transient && area.is_in_malloc) arenas_.push_back(area.range.begin);
    }
    std::sort(arenas_.begin(), arenas_.end());
  }
  // Before the chunks: pages of slots that may lie in blocks of malloc, ascending.
  void add_page(const SlotPage& page) { pages_.push_back(page.begin); }
  // After them.
  void on_slots(const SlotPage& page) {
    for (uint32_t slot = 0; slot < page.slots; ++slot) {
      if ((page.used[slot / 64] >> (slot % 64) & 1) == 0) continue;
      SnapshotBlock block{next_++, page.begin + uint64_t{slot} * page.slot_bytes, page.slot_bytes};
      block.is_slot = true;
      visit_(block);
    }
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
    const bool is_own = std::binary_search(own_.begin(), own_.end(), address) ||
                        holds_one(pages_, address, usable) || holds_one(arenas_, address, usable);
    visit_(SnapshotBlock{next_++, address, usable, stack, slack, false, is_own});
  }
  static bool holds_one(const std::vector<Address>& places, Address address, uint64_t usable) {
    if (places.empty()) return false;
    const auto place = std::lower_bound(places.begin(), places.end(), address);
    return place != places.end() && *place - address < usable;
  }

  unsigned word_;
  Visit visit_;
  BlockNumber next_ = 0;
  std::vector<Address> own_;
  std::vector<Address> pages_;
  std::vector<Address> arenas_;  // Ruby's transient heaps, whose buffers count to their objects
};

// Calls visit(block) for each, in ascending order of numbers.
template <typename Visit>
void each_snapshot_block(const SnapshotStreams& streams, Visit visit) {
  SnapshotBlockSink<Visit> sink(*streams.metadata, visit);
  if (streams.read_slots) streams.read_slots([&](const SlotPage& page) { sink.add_page(page); });
  streams.read_chunks(sink);
  if (streams.read_slots) streams.read_slots([&](const SlotPage& page) { sink.on_slots(page); });
}

}  // namespace heapsnap
