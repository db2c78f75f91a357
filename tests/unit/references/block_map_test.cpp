#include "references/block_map.h"

#include <doctest/doctest.h>

#include <map>

#include "tests/unit/references/random_heap.h"

using namespace heapsnap;

namespace {

constexpr uint64_t kPlenty = 1 << 30;

// The slow way: the block in whose range the address lies.
class BlockList {
 public:
  explicit BlockList(std::vector<AddressRange> blocks) : blocks_(std::move(blocks)) {
    for (BlockNumber i = 0; i < blocks_.size(); ++i) by_begin_[blocks_[i].begin] = i;
  }
  std::optional<BlockMap::Place> find(Address address) const {
    const auto after = by_begin_.upper_bound(address);
    if (after == by_begin_.begin()) return std::nullopt;
    const BlockNumber block = std::prev(after)->second;
    if (!blocks_[block].contains(address)) return std::nullopt;
    return BlockMap::Place{block, address - blocks_[block].begin};
  }

 private:
  std::vector<AddressRange> blocks_;
  std::map<Address, BlockNumber> by_begin_;
};

void check_at(const BlockMap& map, const BlockList& list, Address address, BlockMap::Hint& hint,
              std::vector<uint64_t>& addresses) {
  addresses.push_back(address.value());
  const auto expected = list.find(address);
  const auto found = map.find(address.value(), hint);
  REQUIRE(found.has_value() == expected.has_value());
  if (!expected) return;
  CHECK(found->block == expected->block);
  CHECK(found->offset == expected->offset);
  CHECK(map.may_hold(address.value()));
}

// All at once, the same is found as of each by itself.
void check_all(const BlockMap& map, const std::vector<uint64_t>& addresses) {
  std::vector<BlockMap::Place> places(addresses.size());
  BlockMap::Hint hint;
  map.find_all(addresses, places.data(), hint);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto expected = map.find(addresses[i], hint);
    REQUIRE((places[i].block != kNoBlock) == expected.has_value());
    if (!expected) continue;
    CHECK(places[i].block == expected->block);
    CHECK(places[i].offset == expected->offset);
  }
}

void check_heap(const RandomHeap& heap, std::mt19937_64& random, size_t batch_size) {
  BlockMap map(heap.machine, kPlenty);
  heap.give_to(map, batch_size);
  map.seal();
  REQUIRE(map.why_not().empty());
  const auto blocks = heap.blocks();
  CHECK(map.blocks() == blocks.size());
  const BlockList list(blocks);
  BlockMap::Hint hint;
  std::vector<uint64_t> addresses;
  for (const auto& segment : heap.segments) {
    for (const HeapChunk& chunk : segment) {
      // The words around each border, and one in it.
      for (const uint64_t border : {chunk.begin, chunk.begin + chunk.size}) {
        for (int64_t i = -5; i <= 5; ++i) {
          check_at(map, list, Address(border + static_cast<uint64_t>(4 * i)), hint, addresses);
        }
      }
      check_at(map, list, Address(chunk.begin + random() % chunk.size), hint, addresses);
    }
  }
  for (const MmappedChunk& chunk : heap.mmapped) {
    for (const uint64_t offset : {0, 8, 16, 100, 4096}) {
      check_at(map, list, chunk.chunk + offset, hint, addresses);
    }
    check_at(map, list, chunk.chunk + chunk.usable, hint, addresses);
    check_at(map, list, chunk.chunk + chunk.size, hint, addresses);
  }
  for (BlockNumber block = 0; block < blocks.size(); ++block) {
    CHECK(map.usable(blocks[block].begin) == blocks[block].size());
    CHECK(map.address_of(block) == blocks[block].begin);
  }
  if (!blocks.empty()) CHECK(map.usable(blocks[0].begin + 1) == 0);
  for (const uint64_t odd : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63}) {
    check_at(map, list, Address(odd), hint, addresses);
  }
  check_all(map, addresses);
}

}  // namespace

TEST_CASE("a map says in which block an address lies") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    const Machine machine = i % 4 == 0 ? Machine::kI386 : Machine::kX86_64;
    const RandomHeap heap = random_heap(random, machine, 1 + random() % 400);
    check_heap(heap, random, 1 + random() % 100);
  }
}

TEST_CASE("the memory of blocks is listed in the order of their numbers") {
  std::mt19937_64 random(11);
  for (int i = 0; i < 50; ++i) {
    const RandomHeap heap = random_heap(random, Machine::kX86_64, 300);
    BlockMap map(heap.machine, kPlenty);
    heap.give_to(map, 1000);
    map.seal();
    const auto blocks = heap.blocks();
    size_t next = 0;
    for (const AddressRange& memory : map.memory()) {
      while (next < blocks.size() && memory.contains(blocks[next].begin)) ++next;
    }
    CHECK(next == blocks.size());
  }
}

TEST_CASE("a damaged heap gets no numbers") {
  const auto map_of = [](std::vector<std::vector<HeapChunk>> segments) {
    RandomHeap heap;
    heap.segments = std::move(segments);
    BlockMap map(Machine::kX86_64, kPlenty);
    heap.give_to(map, 100);
    map.seal();
    return map.why_not();
  };
  CHECK(map_of({{{0x1000, 64}}, {{0x2000, 64}}}).empty());
  CHECK(map_of({{{0x1000, 64}, {0x1040, 4096}}, {{0x1080, 64}}}).find("overlap") !=
        std::string::npos);
  CHECK(map_of({{{0x1000, 0x20000}}, {{0x2000, 64}}}).find("overlap") != std::string::npos);
  CHECK(map_of({{{0x1008, 64}}}).find("aligned") != std::string::npos);
  CHECK(map_of({{{0x1000, ~uint64_t{0} & ~uint64_t{15}}}}).find("past") != std::string::npos);
}

TEST_CASE("a chunk with an impossible size is a block without memory, and keeps its number") {
  BlockMap map(Machine::kX86_64, kPlenty);
  const std::vector<uint64_t> sizes{32, 8, 40};
  const std::vector<ChunkState> states(3, ChunkState::kUsed);
  map.on_batch({0, 0, Address(0x1000), std::span(sizes).first(2), std::span(states).first(2)});
  map.on_batch({0, 0, Address(0x2000), std::span(sizes).first(1), std::span(states).first(1)});
  map.seal();
  CHECK(map.blocks() == 3);
  BlockMap::Hint hint;
  CHECK(map.find(0x2010, hint)->block == 2);
  CHECK_FALSE(map.find(0x1030, hint).has_value());
}

TEST_CASE("a map takes no more memory than it may") {
  BlockMap map(Machine::kX86_64, 1 << 20);
  const std::vector<uint64_t> sizes(1000, 60 << 10);
  const std::vector<ChunkState> states(1000, ChunkState::kUsed);
  uint64_t at = 0x10000;
  for (int i = 0; i < 10; ++i) {
    map.on_batch({0, 0, Address(at), sizes, states});
    at += 1000 * (60 << 10);
  }
  map.seal();
  CHECK(map.why_not().find("memory") != std::string::npos);
  CHECK(map.blocks() == 0);
}

TEST_CASE("what lies between heap segments is among no chunks, though what is free in them is") {
  constexpr Address kFirst{0x560000000000};
  constexpr Address kSecond{0x560000100000};
  constexpr uint64_t kLarge = 128 << 10;
  BlockMap map(Machine::kX86_64, kPlenty);
  const std::vector<uint64_t> sizes{48, kLarge, 48};
  const std::vector<ChunkState> states{ChunkState::kUsed, ChunkState::kLargebin, ChunkState::kUsed};
  map.on_batch({0, 0, kFirst, sizes, states});
  map.on_batch({0, 1, kSecond, sizes, states});
  map.seal();
  BlockMap::Hint hint;
  const auto is_among = [&](Address at) { return map.is_among_chunks(at.value(), hint); };
  CHECK(is_among(kFirst + 16));
  CHECK(is_among(kFirst + kLarge / 2));
  CHECK(is_among(kSecond + kLarge / 2));
  CHECK(is_among(kSecond + 48 + kLarge + 16));
  CHECK(!is_among(kFirst + 3 * kLarge));
  CHECK(map.may_hold(kFirst.value() + 3 * kLarge));
  CHECK(!is_among(kSecond + 3 * kLarge));
}
