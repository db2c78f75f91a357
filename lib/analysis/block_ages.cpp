#include "analysis/block_ages.h"

#include <algorithm>
#include <vector>

namespace heapsnap {

namespace {

constexpr size_t kKeysAtOnce = 8 << 20;  // 64 MiB: larger snapshots are read more than once

// Address and size of a chunk in one word, in ascending order of address. Chunks begin at multiples
// of 16 (of 8 in 32-bit processes, where the address has bits to spare). Sizes below 4 MiB are told
// apart for certain, larger ones by a hash: two at one address are alike once in 500,000 times.
uint64_t chunk_key(Address begin, uint64_t size) {
  constexpr unsigned kSizeBits = 19;
  constexpr uint64_t kSizes = uint64_t{1} << kSizeBits;
  constexpr uint64_t kFibonacci = 0x9e3779b97f4a7c15;
  const uint64_t units = size >> 3;
  const uint64_t size_key = units < kSizes ? units : units * kFibonacci >> (64 - kSizeBits);
  return begin.value() >> 3 << kSizeBits | size_key;
}

// Calls visit(key) for each chunk in use.
template <typename Visit>
class LiveKeys final : public ChunkSink {
 public:
  explicit LiveKeys(Visit visit) : visit_(visit) {}
  void on_batch(const ChunkBatch& batch) override {
    Address begin = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      if (is_live(batch.states[i])) visit_(chunk_key(begin, batch.sizes[i]));
      begin = begin + batch.sizes[i];
    }
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    if (is_live(chunk.state)) visit_(chunk_key(chunk.chunk, chunk.total));
  }

 private:
  Visit visit_;
};

template <typename Visit>
void each_live_key(const SnapshotStreams& streams, Visit visit) {
  LiveKeys<Visit> sink(visit);
  streams.read_chunks(sink);
}

size_t count_live(const SnapshotStreams& streams) {
  size_t count = 0;
  each_live_key(streams, [&](uint64_t /*key*/) { ++count; });
  return count;
}

// Chunks in use of a snapshot, looked up by keys that mostly ascend.
class LiveChunkKeys {
 public:
  // `count` chunks from number `first` on.
  LiveChunkKeys(const SnapshotStreams& streams, size_t first, size_t count) : keys_(count) {
    size_t chunk = 0;
    each_live_key(streams, [&](uint64_t key) {
      if (chunk >= first && chunk - first < count) keys_[chunk - first] = key;
      ++chunk;
    });
    if (!std::is_sorted(keys_.begin(), keys_.end())) std::sort(keys_.begin(), keys_.end());
    at_ = keys_.begin();
  }

  bool has(uint64_t key) {
    const uint64_t* first = at_ != keys_.end() && *at_ <= key ? at_ : keys_.begin();
    const uint64_t* last = first;
    // Steps that double find what is near in few comparisons.
    for (ptrdiff_t step = 1; last != keys_.end() && *last < key; step *= 2) {
      first = last;
      last = keys_.end() - last > step ? last + step : keys_.end();
    }
    at_ = std::lower_bound(first, last, key);
    return at_ != keys_.end() && *at_ == key;
  }

 private:
  LargeArray<uint64_t> keys_;
  const uint64_t* at_ = nullptr;
};

}  // namespace

LargeArray<uint8_t> block_ages(std::span<const SnapshotStreams> snapshots) {
  const SnapshotStreams& newest = snapshots.back();
  LargeArray<uint8_t> ages(count_live(newest));
  auto age = static_cast<uint8_t>(snapshots.size() - 1);
  std::fill(ages.begin(), ages.end(), age);
  for (; age > 0; --age) {
    const SnapshotStreams& older = snapshots[age - 1];
    const size_t count = count_live(older);
    for (size_t first = 0; first < count; first += kKeysAtOnce) {
      LiveChunkKeys before(older, first, std::min(kKeysAtOnce, count - first));
      size_t block = 0;
      each_live_key(newest, [&](uint64_t key) {
        if (ages[block] == age && before.has(key)) --ages[block];
        ++block;
      });
    }
  }
  return ages;
}

}  // namespace heapsnap
