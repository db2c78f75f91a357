// Heaps of random chunks, with what a map of them must say.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "references/block_map.h"

namespace heapsnap {

struct HeapChunk {
  uint64_t begin = 0;
  uint64_t size = 0;
  ChunkState state = ChunkState::kUsed;
};

struct RandomHeap {
  Machine machine = Machine::kX86_64;
  std::vector<std::vector<HeapChunk>> segments;  // in the order of the walk
  std::vector<MmappedChunk> mmapped;

  // The blocks in the order of their numbers: what a program may use of each.
  std::vector<AddressRange> blocks() const {
    const uint64_t word = word_size(machine);
    std::vector<HeapChunk> chunks;
    for (const auto& segment : segments)
      chunks.insert(chunks.end(), segment.begin(), segment.end());
    std::sort(chunks.begin(), chunks.end(),
              [](const HeapChunk& a, const HeapChunk& b) { return a.begin < b.begin; });
    std::vector<AddressRange> blocks;
    for (const HeapChunk& chunk : chunks) {
      if (!is_live(chunk.state)) continue;
      blocks.push_back({Address(chunk.begin + 2 * word), Address(chunk.begin + chunk.size + word)});
    }
    for (const MmappedChunk& chunk : mmapped) {
      if (!is_live(chunk.state)) continue;
      blocks.push_back({chunk.chunk + 2 * word, chunk.chunk + 2 * word + chunk.usable});
    }
    return blocks;
  }

  void give_to(ChunkSink& sink, size_t batch_size) const {
    for (size_t i = 0; i < segments.size(); ++i) {
      const auto& chunks = segments[i];
      for (size_t first = 0; first < chunks.size();) {
        std::vector<uint64_t> sizes;
        std::vector<ChunkState> states;
        size_t next = first;
        uint64_t end = chunks[first].begin;
        while (next < chunks.size() && next - first < batch_size && chunks[next].begin == end) {
          sizes.push_back(chunks[next].size);
          states.push_back(chunks[next].state);
          end += chunks[next].size;
          ++next;
        }
        sink.on_batch({0, static_cast<uint32_t>(i), Address(chunks[first].begin), sizes, states});
        first = next;
      }
    }
    for (const MmappedChunk& chunk : mmapped) sink.on_mmapped(chunk);
  }
};

// Segments with holes, small and large chunks, some free; in an order other than that of addresses.
inline RandomHeap random_heap(std::mt19937_64& random, Machine machine, size_t chunks) {
  RandomHeap heap;
  heap.machine = machine;
  const uint64_t place = 2 * word_size(machine);
  const auto below = [&random](uint64_t limit) { return random() % limit; };
  uint64_t at = machine == Machine::kI386 ? 0x08000000 : 0x555555554000;
  for (size_t segment = 0; segment < 1 + below(4); ++segment) {
    at += place * below(1 << 16);
    auto& list = heap.segments.emplace_back();
    for (size_t i = 0; i < 1 + below(chunks); ++i) {
      if (below(50) == 0) at += place * (1 + below(8000));  // somebody else's sbrk(2)
      const uint64_t sizes[] = {2, 3, 5, 9, 2 + below(64), 2 + below(600), 4096, 4097, 70000};
      const uint64_t size = place * sizes[below(std::size(sizes))];
      const auto state = below(3) != 0 ? ChunkState::kUsed : ChunkState::kTcache;
      list.push_back({at, size, state});
      at += size;
    }
  }
  std::shuffle(heap.segments.begin(), heap.segments.end(), random);
  for (size_t i = 0; i < below(5); ++i) {
    at = (at + 0x200000) & ~uint64_t{0xfff};
    MmappedChunk chunk;
    chunk.mapping_begin = chunk.chunk = Address(at);
    chunk.total = chunk.size = 0x1000 * (1 + below(100));
    chunk.usable = chunk.size - place;
    if (below(5) == 0) chunk.state = ChunkState::kTcache;
    heap.mmapped.push_back(chunk);
    at += chunk.size;
  }
  std::shuffle(heap.mmapped.begin(), heap.mmapped.end(), random);
  return heap;
}

}  // namespace heapsnap
