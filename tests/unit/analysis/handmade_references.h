// References, roots and types put together by hand, for a heap whose blocks are all of one segment.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analysis/reference_streams.h"
#include "tests/unit/analysis/handmade_snapshot.h"

namespace heapsnap::test {

struct HandmadeHeap {
  static constexpr uint64_t kBegin = 0x10000;
  static constexpr uint64_t kWord = 8;

  struct Block {
    uint64_t size;  // usable bytes
    TypeNumber type = 0;
    struct Link {
      uint32_t offset;  // in bytes
      BlockNumber target;
      bool interior;
    };
    std::vector<Link> references = {};
  };

  HandmadeSnapshot snapshot;
  ReferenceStreams streams;
  std::vector<Block> blocks;
  std::vector<Root> roots;
  std::vector<uint32_t> stacks;
  BlockNumber slots = 0;  // of the blocks, the last ones: each is the slot of a page of its own

  HandmadeHeap() { streams.types.emplace_back(); }

  // Its size is a multiple of 16 less a word.
  BlockNumber add(uint64_t size, TypeNumber type = 0, uint32_t stack = 0) {
    blocks.push_back({size, type});
    stacks.push_back(stack);
    return static_cast<BlockNumber>(blocks.size() - 1);
  }
  void link(BlockNumber from, uint32_t offset, BlockNumber to, bool interior = false) {
    blocks[from].references.push_back({offset, to, interior});
  }
  TypeNumber add_type(std::string name, TypeSource source = TypeSource::kVtable) {
    streams.types.push_back({std::move(name), "", source});
    return static_cast<TypeNumber>(streams.types.size() - 1);
  }
  // A class that a Python has counted objects of.
  TypeNumber add_class(const std::string& name, bool is_tracked = true) {
    RuntimeModel& runtimes = snapshot.metadata.runtimes;
    if (runtimes.runtimes.empty()) runtimes.runtimes.emplace_back().kind = RuntimeKind::kPython;
    RuntimeClass& added = runtimes.classes.emplace_back();
    added.name = name;
    added.count = 1;
    added.tracked = is_tracked ? 1 : 0;
    return add_type(name, TypeSource::kRuntime);
  }
  uint32_t add_place(RootKind kind, std::string name, int32_t tid = 0) {
    RootPlace place;
    place.kind = kind;
    place.name = std::move(name);
    place.tid = tid;
    place.begin = Address(0x400000 + 0x100 * streams.places.size());
    streams.places.push_back(place);
    return static_cast<uint32_t>(streams.places.size() - 1);
  }
  void hold(uint32_t place, BlockNumber target, uint64_t offset = 0) {
    roots.push_back({place, offset, target, false});
  }
  Address address_of(BlockNumber block) const {
    uint64_t address = kBegin + 2 * kWord;
    for (BlockNumber i = 0; i < block; ++i) address += blocks[i].size + kWord;
    return Address(address);
  }

  SnapshotStreams finish() {
    HandmadeSnapshot::Chunks chunks;
    const size_t first_slot = blocks.size() - slots;
    for (size_t i = 0; i < first_slot; ++i) chunks.emplace_back(blocks[i].size + kWord, kUsed);
    stacks.resize(first_slot);
    snapshot.add_arena(true);
    snapshot.add_segment(0, SegmentKind::kBrk, kBegin, chunks);
    streams.read_references = [this](ReferenceSink& sink) {
      for (BlockNumber i = 0; i < blocks.size(); ++i) {
        const auto count = static_cast<uint32_t>(blocks[i].references.size());
        std::vector<uint32_t> offsets;
        std::vector<BlockNumber> targets;
        std::vector<uint8_t> interior;
        for (const Block::Link& link : blocks[i].references) {
          offsets.push_back(link.offset / kWord);
          targets.push_back(link.target);
          interior.push_back(link.interior ? 1 : 0);
        }
        sink.on_references({i, std::span(&count, 1), offsets, targets, interior});
      }
    };
    streams.read_roots = [this](const std::function<void(const Root&)>& receive) {
      for (const Root& root : roots) receive(root);
    };
    streams.read_block_types = [this](const ReferenceStreams::ReceiveTypes& receive) {
      std::vector<TypeNumber> types;
      for (const Block& block : blocks) types.push_back(block.type);
      receive(0, types);
    };
    if (slots != 0) {
      snapshot.metadata.references.emplace();
      snapshot.metadata.references->slots = slots;
    }
    SnapshotStreams result = snapshot.streams();
    result.read_slots = [this, first_slot, last = blocks.size()](const ReceiveSlots& receive) {
      constexpr uint64_t kSlots = 0x7f0000000000;
      constexpr uint64_t kPage = 0x4000;
      const uint64_t used = 1;
      for (size_t i = first_slot; i < last; ++i) {
        receive({Address(kSlots + (i - first_slot) * kPage), static_cast<uint32_t>(blocks[i].size),
                 1, std::span(&used, 1)});
      }
    };
    result.read_chunks = [this](ChunkSink& sink) {
      const HandmadeSnapshot::Batch& batch = snapshot.batches.front();
      sink.on_batch({0, 0, batch.begin, batch.sizes, batch.states, stacks});
    };
    return result;
  }
};

}  // namespace heapsnap::test
