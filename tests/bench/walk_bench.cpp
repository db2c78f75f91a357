// Chunks a second of a whole walk over local memory, as that of a core: what heapsnap itself costs,
// without a child that makes the passes.
#include <benchmark/benchmark.h>

#include <random>

#include "heap/walk/heap_walker.h"
#include "tests/unit/heap/flat_target.h"
#include "tests/unit/heap/synthetic_heap.h"

using namespace heapsnap;

namespace {

class NullSink final : public ChunkSink {
 public:
  void on_batch(const ChunkBatch& batch) override { chunks += batch.sizes.size(); }
  void on_mmapped(const MmappedChunk&) override { ++chunks; }
  uint64_t chunks = 0;
};

// `chunks` of sizes from 32 to 32 + 2 * (mean - 32). Of a hundred, `binned` are in small or large
// bins, `listed` in the unsorted bin or in fastbins, by halves.
std::unique_ptr<SyntheticHeap> make_heap(uint64_t chunks, uint64_t mean, unsigned binned,
                                         unsigned listed) {
  auto heap = std::make_unique<SyntheticHeap>(Machine::kX86_64, 36);
  SyntheticArena& main = heap->brk_arena(chunks * mean * 5 / 4 / 4096 + 64);
  std::mt19937_64 random(1);
  const uint64_t steps = 2 * (mean - 32) / 16 + 1;
  bool was_free = false;
  for (uint64_t i = 0; i < chunks; ++i) {
    const uint64_t size = 32 + random() % steps * 16;
    const uint64_t draw = random() % 100;
    ChunkState state = ChunkState::kUsed;
    if (draw < binned && !was_free) {
      state = size < 1024 ? ChunkState::kSmallbin : ChunkState::kLargebin;
    } else if (draw >= binned && draw < binned + listed / 2 && !was_free) {
      state = ChunkState::kUnsorted;
    } else if (draw >= binned + listed / 2 && draw < binned + listed && size <= 0x80) {
      state = ChunkState::kFastbin;
    }
    was_free = state != ChunkState::kUsed && state != ChunkState::kFastbin;
    main.add(size, state);
    heap->expected.clear();
  }
  main.add(32, ChunkState::kUsed);
  main.top(0x1000);
  main.system_mem = main.cursor() - heap->heap_begin();
  heap->idle_thread(1);
  heap->finish();
  return heap;
}

// Arguments: thousands of chunks, mean size, percent in bins, percent on lists.
void walk(benchmark::State& state) {
  const auto heap =
      make_heap(static_cast<uint64_t>(state.range(0)) * 1000, static_cast<uint64_t>(state.range(1)),
                static_cast<unsigned>(state.range(2)), static_cast<unsigned>(state.range(3)));
  FlatTarget target(heap->target);
  const std::vector<LocatedMalloc> mallocs{heap->located()};
  uint64_t chunks = 0;
  for (auto _ : state) {
    NullSink sink;
    const HeapModel model = walk_heaps(target, mallocs, sink);
    if (!model.corruptions.empty()) state.SkipWithError(model.corruptions[0].what.c_str());
    chunks += sink.chunks;
  }
  state.counters["chunks/s"] =
      benchmark::Counter(static_cast<double>(chunks), benchmark::Counter::kIsRate);
}

}  // namespace

BENCHMARK(walk)
    ->ArgNames({"thousands", "mean", "binned", "listed"})
    ->Args({5000, 64, 15, 0})
    ->Args({5000, 64, 15, 2})
    ->Args({5000, 64, 5, 10})
    ->Args({5000, 112, 15, 0})
    ->Args({5000, 112, 15, 2})
    ->Args({1000, 1024, 15, 2})
    ->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
