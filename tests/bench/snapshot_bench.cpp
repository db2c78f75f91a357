// How fast chunks go into a snapshot and come out of it, and how many bytes each costs.
//
// 5 M chunks of random sizes: the worst that a real heap can ask for, since nothing repeats.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "snapshot/snapshot_reader.h"
#include "snapshot/snapshot_writer.h"

namespace {

using namespace heapsnap;

constexpr size_t kChunks = 5'000'000;
constexpr size_t kBatch = 4096;  // about what a walk hands over at once

struct Heap {
  std::vector<uint64_t> sizes;
  std::vector<ChunkState> states;
};

// 15 % free in four kinds.
Heap random_heap(uint64_t low, uint64_t high) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<uint64_t> request(low, high);
  Heap heap;
  for (size_t i = 0; i < kChunks; ++i) {
    heap.sizes.push_back(std::max<uint64_t>(32, (request(random) + 8 + 15) & ~uint64_t{15}));
    auto state = ChunkState::kUsed;
    if (random() % 100 < 15) {
      const auto kind = random() % 10;
      state = kind < 4   ? ChunkState::kTcache
              : kind < 6 ? ChunkState::kFastbin
              : kind < 9 ? ChunkState::kSmallbin
                         : ChunkState::kUnsorted;
    }
    heap.states.push_back(state);
  }
  return heap;
}

std::string path_of_snapshot() {
  const char* directory = std::getenv("TMPDIR");
  return std::string(directory != nullptr ? directory : "/tmp") + "/heapsnap-bench-" +
         std::to_string(::getpid()) + ".hsnap";
}

uint64_t write(const Heap& heap, const std::string& path, bool deferred) {
  SnapshotWriter writer({path, true});
  writer.set_deferred(deferred);
  Address at(0x555500000000);
  for (size_t i = 0; i < kChunks; i += kBatch) {
    const size_t count = std::min(kBatch, kChunks - i);
    const auto sizes = std::span(heap.sizes).subspan(i, count);
    writer.on_batch({0, 0, at, sizes, std::span(heap.states).subspan(i, count)});
    for (const uint64_t size : sizes) at += size;
  }
  writer.set_deferred(false);
  SnapshotMetadata metadata;
  metadata.heap.instances.resize(1);
  metadata.heap.arenas.resize(1);
  metadata.heap.segments.resize(1);
  return writer.finish(metadata);
}

void write_chunks(benchmark::State& state, bool deferred) {
  const Heap heap =
      random_heap(static_cast<uint64_t>(state.range(0)), static_cast<uint64_t>(state.range(1)));
  const std::string path = path_of_snapshot();
  uint64_t bytes = 0;
  for (auto _ : state) bytes = write(heap, path, deferred);
  ::unlink(path.c_str());
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kChunks));
  state.counters["bytes/chunk"] = static_cast<double>(bytes) / kChunks;
}

class Adder final : public ChunkSink {
 public:
  void on_batch(const ChunkBatch& batch) override {
    for (const uint64_t size : batch.sizes) total += size;
    for (const ChunkState state : batch.states) used += is_live(state) ? 1 : 0;
  }
  void on_mmapped(const MmappedChunk&) override {}

  uint64_t total = 0;
  uint64_t used = 0;
};

void read_chunks(benchmark::State& state) {
  const Heap heap =
      random_heap(static_cast<uint64_t>(state.range(0)), static_cast<uint64_t>(state.range(1)));
  const std::string path = path_of_snapshot();
  write(heap, path, false);
  const SnapshotReader reader = SnapshotReader::open(path);
  ::unlink(path.c_str());
  for (auto _ : state) {
    Adder adder;
    reader.read_chunks(adder);
    benchmark::DoNotOptimize(adder.total + adder.used);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kChunks));
}

BENCHMARK_CAPTURE(write_chunks, at_once, false)
    ->Args({16, 1024})
    ->Args({32, 512})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(write_chunks, deferred, true)
    ->Args({16, 1024})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(read_chunks)->Args({16, 1024})->Args({32, 512})->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
