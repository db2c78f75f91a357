#include "references/block_edges.h"

#include <doctest/doctest.h>

#include <random>
#include <span>
#include <utility>
#include <vector>

using namespace heapsnap;

namespace {

using Edges = std::vector<std::pair<uint32_t, BlockNumber>>;

class NoSink final : public ReferenceSink {
 public:
  void on_references(const ReferenceBatch&) override {}
};

// References of blocks, some of which lead past a first byte.
struct RandomReferences {
  std::vector<uint32_t> counts;
  std::vector<uint32_t> offsets;
  std::vector<BlockNumber> targets;
  std::vector<uint8_t> interior;
  std::vector<Edges> expected;

  RandomReferences(std::mt19937& random, BlockNumber blocks) {
    for (BlockNumber block = 0; block < blocks; ++block) {
      // Now and then one that takes more than 255 bytes.
      const uint32_t count = random() % 50 == 0 ? random() % 500 : random() % 4;
      counts.push_back(count);
      Edges& edges = expected.emplace_back();
      uint32_t offset = random() % 3;
      for (uint32_t i = 0; i < count; ++i) {
        const bool is_near = random() % 2 == 0;
        offsets.push_back(offset);
        targets.push_back((is_near ? block + random() % 5 : random()) % blocks);
        interior.push_back(random() % 8 == 0 ? 1 : 0);
        if (interior.back() == 0) edges.emplace_back(offset, targets.back());
        offset += 1 + (is_near ? 0 : random() % 1'000'000);
      }
    }
  }
};

Edges edges_of(const BlockEdges& edges, BlockNumber block, BlockEdges::Hint& hint) {
  Edges found;
  edges.each(block, hint, [&found](uint32_t offset, BlockNumber target) {
    found.emplace_back(offset, target);
    return true;
  });
  return found;
}

}  // namespace

TEST_CASE("references are kept as they were, whichever block is asked for") {
  constexpr BlockNumber kBlocks = 500;
  std::mt19937 random(1);
  const RandomReferences all(random, kBlocks);
  const std::vector<uint64_t> sizes(kBlocks, 4096);
  const std::vector<ChunkState> states(kBlocks, ChunkState::kUsed);
  BlockMap map(Machine::kX86_64, 1 << 20);
  map.on_batch({0, 0, Address(0x10000), sizes, states});
  map.seal();
  NoSink sink;
  for (const BlockNumber expected : {BlockNumber{0}, BlockNumber{9}, kBlocks, kNoBlock}) {
    BlockEdges edges(sink, 1 << 24);
    edges.expect(expected);
    edges.on_references({0, all.counts, all.offsets, all.targets, all.interior});
    edges.seal(map);
    REQUIRE_FALSE(edges.is_cut_off());
    BlockEdges::Hint hint;
    for (BlockNumber block = 0; block < kBlocks; ++block) {
      CHECK(edges_of(edges, block, hint) == all.expected[block]);
    }
    for (int i = 0; i < 2000; ++i) {
      const BlockNumber block = random() % kBlocks;
      CHECK(edges_of(edges, block, hint) == all.expected[block]);
    }
  }
}

TEST_CASE("references of a block that come in parts are kept as those that come at once") {
  constexpr BlockNumber kBlocks = 300;
  std::mt19937 random(2);
  const RandomReferences all(random, kBlocks);
  NoSink sink;
  BlockEdges edges(sink, 1 << 24);
  size_t reference = 0;
  std::vector<uint32_t> counts;
  size_t first_reference = 0;
  BlockNumber first = 0;
  size_t parts = 0;
  const auto hand_over = [&](bool goes_on) {
    const size_t count = reference - first_reference;
    edges.on_references({first, counts, std::span(all.offsets).subspan(first_reference, count),
                         std::span(all.targets).subspan(first_reference, count),
                         std::span(all.interior).subspan(first_reference, count), goes_on});
    first_reference = reference;
  };
  for (BlockNumber block = 0; block < kBlocks; ++block) {
    counts.push_back(0);
    for (uint32_t i = 0; i < all.counts[block]; ++i) {
      ++reference;
      ++counts.back();
      if (random() % 3 != 0) continue;
      hand_over(true);  // sometimes behind the last one
      first = block;
      counts = {0};
      ++parts;
    }
    if (random() % 4 != 0) continue;
    hand_over(false);
    first = block + 1;
    counts.clear();
  }
  if (!counts.empty()) hand_over(false);
  REQUIRE(parts > 100);
  REQUIRE(edges.blocks() == kBlocks);
  BlockEdges::Hint hint;
  for (BlockNumber block = 0; block < kBlocks; ++block) {
    CHECK(edges_of(edges, block, hint) == all.expected[block]);
  }
}

TEST_CASE("slots have the size of their page's, also behind a page without any") {
  const std::vector<uint64_t> sizes = {32};
  const std::vector<ChunkState> states(1, ChunkState::kUsed);
  BlockMap map(Machine::kX86_64, 1 << 20);
  map.on_batch({0, 0, Address(0x10000), sizes, states});
  SlotMap slots;
  for (const uint32_t page : {0U, 1U, 2U}) {
    const Address begin = Address(0x40000) + page * 0x1000;
    slots.add_page({begin, begin + 0x1000}, begin, 64 << page, 16);
    if (page == 1) continue;
    slots.add_slot(3, SlotMap::kBuffers);
    slots.add_slot(9, SlotMap::kBuffers);
  }
  slots.seal();
  map.set_slots(std::move(slots));
  map.seal();
  NoSink sink;
  BlockEdges edges(sink, 1 << 20);
  const std::vector<uint32_t> counts(5, 0);
  edges.on_references({0, counts, {}, {}, {}});
  edges.seal(map);
  edges.keep_sizes(map);
  REQUIRE(edges.blocks() == 5);
  CHECK(edges.usable(0) == 24);
  CHECK(edges.usable(1) == 64);
  CHECK(edges.usable(2) == 64);
  CHECK(edges.usable(3) == 256);
  CHECK(edges.usable(4) == 256);
}

TEST_CASE("large blocks keep their sizes, too") {
  const std::vector<uint64_t> sizes = {32, 60 << 10, 48};
  const std::vector<ChunkState> states(3, ChunkState::kUsed);
  BlockMap map(Machine::kX86_64, 1 << 20);
  map.on_batch({0, 0, Address(0x10000), sizes, states});
  MmappedChunk large;
  large.chunk = Address(0x7f0000000010);
  large.usable = 1 << 20;
  large.state = ChunkState::kUsed;
  map.on_mmapped(large);
  map.seal();
  NoSink sink;
  BlockEdges edges(sink, 1 << 20);
  const std::vector<uint32_t> counts(4, 0);
  edges.on_references({0, counts, {}, {}, {}});
  edges.seal(map);
  edges.keep_sizes(map);
  REQUIRE(edges.blocks() == 4);
  CHECK(edges.usable(0) == 24);
  CHECK(edges.usable(1) == (60 << 10) - 8);
  CHECK(edges.usable(2) == 40);
  CHECK(edges.usable(3) == 1 << 20);
}
