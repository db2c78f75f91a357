// A snapshot put together by hand: chunks, page runs and metadata in vectors, given as streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/snapshot_streams.h"
#include "heap/chunk.h"
#include "snapshot/metadata.h"

namespace heapsnap::test {

inline constexpr ChunkState kUsed = ChunkState::kUsed;

struct HandmadeSnapshot {
  using Chunks = std::vector<std::pair<uint64_t, ChunkState>>;

  struct Batch {
    int32_t arena = 0;
    uint32_t segment = 0;
    Address begin;
    std::vector<uint64_t> sizes;
    std::vector<ChunkState> states;
  };

  SnapshotMetadata metadata;
  std::vector<Batch> batches;
  std::vector<MmappedChunk> mmapped;
  std::vector<PageRun> pages;
  std::map<Address, std::vector<std::byte>> contents;

  HandmadeSnapshot() {
    metadata.process.pid = 42;
    metadata.process.comm = "handmade";
    metadata.process.exe = "/opt/handmade";
    metadata.heap.instances.resize(1);
  }

  void add_mapping(uint64_t begin, uint64_t end, std::string path, MappingUsage usage) {
    Mapping mapping;
    mapping.range = {Address(begin), Address(end)};
    mapping.readable = mapping.writable = true;
    mapping.path = std::move(path);
    if (mapping.path.starts_with('/')) mapping.inode = 7;
    metadata.mappings.push_back(mapping);
    metadata.usage.push_back(usage);
  }
  void add_arena(bool is_main) {
    Arena arena;
    arena.is_main = is_main;
    metadata.heap.arenas.push_back(arena);
  }
  // A segment whose chunks follow each other without a gap, and the batch that brings them.
  void add_segment(int32_t arena, SegmentKind kind, uint64_t begin, const Chunks& chunks) {
    Batch batch;
    batch.arena = arena;
    batch.segment = static_cast<uint32_t>(metadata.heap.segments.size());
    batch.begin = Address(begin);
    uint64_t end = begin;
    for (const auto& [size, state] : chunks) {
      batch.sizes.push_back(size);
      batch.states.push_back(state);
      end += size;
    }
    HeapSegment segment;
    segment.range = {Address(begin), Address(end)};
    segment.arena = arena;
    segment.kind = kind;
    segment.system_bytes = end - begin;
    metadata.heap.segments.push_back(segment);
    batches.push_back(std::move(batch));
  }
  void add_pages(uint64_t begin, uint64_t end, PageState state) {
    pages.push_back({{Address(begin), Address(end)}, state});
  }

  SnapshotStreams streams() const {
    SnapshotStreams streams;
    streams.metadata = &metadata;
    streams.read_chunks = [this](ChunkSink& sink) {
      for (const Batch& batch : batches) {
        sink.on_batch({batch.arena, batch.segment, batch.begin, batch.sizes, batch.states});
      }
      for (const MmappedChunk& chunk : mmapped) sink.on_mmapped(chunk);
    };
    streams.read_pages = [this](const ReceivePages& receive) {
      for (const PageRun& run : pages) receive(run);
    };
    streams.read_contents = [this](const ReceiveContents& receive) {
      for (const auto& [from, bytes] : contents) receive(from, bytes);
    };
    return streams;
  }
};

}  // namespace heapsnap::test
