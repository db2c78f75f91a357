// A heap whose words are written by hand, for what containers keep in it.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "references/container_storage.h"
#include "references/reference_scan.h"
#include "tests/unit/heap/sparse_target.h"

namespace heapsnap::test {

inline constexpr uint64_t kHeap = 0x560000010000;
inline constexpr uint64_t kOne = 0x3f800000;  // floating-point 1.0

// Blocks one after the other, whose words are written by hand, and some data outside.
struct ContainerHeap {
  static constexpr Address kData{0x404000};
  SparseTarget target{Machine::kX86_64};
  std::vector<uint64_t> sizes;
  std::vector<ChunkState> states;
  uint64_t end = kHeap;

  explicit ContainerHeap(uint64_t bytes = 8 << 20) {
    target.map(Address(kHeap), bytes, "rw-p", "[heap]");
    target.map(kData, 0x1000);
    block(24);  // so that no block is number 0
  }
  // Its size is a multiple of 16 less 8.
  uint64_t block(uint64_t usable, ChunkState state = ChunkState::kUsed) {
    const uint64_t address = end + 16;
    sizes.push_back(usable + 8);
    states.push_back(state);
    end += usable + 8;
    return address;
  }
  void put(uint64_t at, const std::vector<uint64_t>& words) {
    for (size_t i = 0; i < words.size(); ++i) target.put_word(Address(at + 8 * i), words[i]);
  }
  // Calls see(map, storage) with what containers in blocks and in data say.
  template <typename See>
  void look(See see, bool is_on_stack = false, const StartThread& start = {}) {
    class Sink final : public ReferenceSink {
      void on_references(const ReferenceBatch&) override {}
    } sink;
    BlockMap map(Machine::kX86_64, 1 << 30);
    map.on_batch({0, 0, Address(kHeap), sizes, states});
    map.seal();
    REQUIRE(map.why_not().empty());
    ContainerStorage storage(target, map);
    BlockEdges edges(sink, 1 << 26);
    scan_blocks(target, map, edges, {}, {}, &storage);
    edges.seal(map);
    storage.set_on_stack(is_on_stack);
    scan_outside(
        target, map, {kData, kData + 0x1000}, [](const FoundWord&) {}, &storage);
    storage.follow(edges, start);
    see(map, storage);
  }
  // Of the block at `address`.
  std::string kind(uint64_t address, bool is_on_stack = false) {
    StorageKind kind = StorageKind::kNone;
    look(
        [&](const BlockMap& map, const ContainerStorage& storage) {
          BlockMap::Hint hint;
          const auto place = map.find(address, hint);
          REQUIRE(place);
          kind = storage.kind(place->block);
        },
        is_on_stack);
    return kind == StorageKind::kNone ? "" : to_string(kind);
  }
  std::vector<SlackWords> slack(bool is_on_stack = false) {
    std::vector<SlackWords> found;
    look([&](const BlockMap&, ContainerStorage& storage) { found = storage.take_slack_words(); },
         is_on_stack);
    return found;
  }
  // How many blocks are of a kind.
  uint64_t count(StorageKind kind, const StartThread& start) {
    uint64_t found = 0;
    const auto see = [&](const BlockMap& map, const ContainerStorage& storage) {
      for (BlockNumber i = 0; i < map.blocks(); ++i) found += storage.kind(i) == kind ? 1 : 0;
    };
    look(see, false, start);
    return found;
  }
};

}  // namespace heapsnap::test
