// Blocks with the characters of strings, and what the strings do not use.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "references/container_storage.h"
#include "tests/unit/references/container_heap.h"

using namespace heapsnap;
using test::ContainerHeap;

TEST_CASE("the characters of a string end with a 0 and fit their capacity") {
  ContainerHeap heap;
  const uint64_t text = heap.block(40);
  const uint64_t holder = heap.block(56);
  heap.put(text, {0x7878787878787878, 0x7878787878787878, 0x7878787878787878});
  heap.put(holder + 8, {text, 24, 30});
  CHECK(heap.kind(text) == "std::string characters");
  SUBCASE("as many as there are") {
    heap.put(holder + 8, {text, 23, 30});
    CHECK(heap.kind(text) == "");
  }
  SUBCASE("no more than the capacity") {
    heap.put(holder + 8, {text, 31, 30});
    CHECK(heap.kind(text) == "");
  }
  SUBCASE("which is the block's") {
    heap.put(holder + 8, {text, 24, 40});
    CHECK(heap.kind(text) == "");
  }
  SUBCASE("and none of their first words leads to a block") {
    heap.put(text + 8, {holder});
    CHECK(heap.kind(text) == "");
  }
  SUBCASE("and more than what a std::string has room for itself") {
    heap.put(holder + 8, {text, 8, 15});
    heap.put(text + 8, {0});
    CHECK(heap.kind(text) == "");
  }
}

namespace {

// Objects of one size, each with a string at its second word whose characters are in a block, and
// an address behind its capacity.
struct TailHeap : ContainerHeap {
  static constexpr uint32_t kObjects = 16;
  const uint64_t text = block(40);
  const uint64_t node = block(88);
  const uint64_t freed = block(88, ChunkState::kTcache);
  std::vector<uint64_t> objects;  // the first is block 3

  TailHeap() {
    put(text, {0x7878787878787878, 0x7878787878787878, 0x7878787878787878});
    for (uint32_t i = 0; i < kObjects; ++i) add(72, node);
  }
  uint64_t add(uint64_t bytes, uint64_t left_over) {
    objects.push_back(block(bytes));
    put(objects.back() + 8, {text, 24, 30, left_over, node});
    return objects.back();
  }
  uint64_t add_short(uint64_t size = 15) {
    const uint64_t object = block(72);
    put(object + 8, {object + 24, size, 0x7878, node});
    return object;
  }
  void add_short_ones(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) add_short();
  }
  std::vector<UnusedWord> unused() {
    std::vector<UnusedWord> found;
    look([&](const BlockMap&, ContainerStorage& all) { found = all.take_unused_words(); });
    return found;
  }
  static std::vector<UnusedWord> words(uint32_t first, uint32_t count, uint32_t word) {
    std::vector<UnusedWord> all;
    for (uint32_t i = 0; i < count; ++i) all.push_back({first + i, word});
    return all;
  }
};

}  // namespace

TEST_CASE("of a string whose characters are in a block, half of the buffer is not used") {
  TailHeap heap;
  const auto in_all = TailHeap::words(3, TailHeap::kObjects, 4);
  SUBCASE("where short ones lead to themselves") {
    heap.add_short_ones(TailHeap::kObjects);
    CHECK(heap.unused() == in_all);
  }
  SUBCASE("of any length that has room there") {
    heap.add_short_ones(TailHeap::kObjects - 1);
    const uint64_t last = heap.add_short(16);
    CHECK(heap.unused().empty());
    heap.put(last + 16, {0});
    CHECK(heap.unused() == in_all);
    heap.put(last + 8, {last + 32});
    CHECK(heap.unused().empty());
  }
  SUBCASE("not where fewer do than hold an address: these may be structures beside strings") {
    heap.add_short_ones(TailHeap::kObjects - 1);
    CHECK(heap.unused().empty());
  }
  SUBCASE("also of so many that not all are looked at") {
    constexpr uint32_t kMany = 5000;
    for (uint32_t i = TailHeap::kObjects; i < kMany; ++i) heap.add(72, heap.node);
    heap.add_short_ones(kMany + 400);
    CHECK(heap.unused().size() == kMany);
  }
  SUBCASE("where there is an address of a block in use") {
    heap.add_short_ones(TailHeap::kObjects);
    heap.put(heap.objects[15] + 32, {heap.freed});
    CHECK(heap.unused() == TailHeap::words(3, 15, 4));
  }
  SUBCASE("not of few") {
    heap.add_short_ones(TailHeap::kObjects);
    heap.put(heap.objects[0] + 32, {0});
    CHECK(heap.unused().empty());
  }
  SUBCASE("not for those of another size") {
    for (const uint64_t object : heap.objects) heap.put(object + 8, {0});
    for (uint32_t i = 0; i < TailHeap::kObjects; ++i) heap.add(88, heap.node);
    heap.add_short_ones(TailHeap::kObjects);
    CHECK(heap.unused().empty());
  }
  SUBCASE("not where these are no characters") {
    heap.add_short_ones(TailHeap::kObjects);
    heap.put(heap.text + 24, {0x78});
    CHECK(heap.unused().empty());
  }
  SUBCASE("not past the block's end") {
    heap.add_short_ones(TailHeap::kObjects);
    for (const uint64_t object : heap.objects) {
      heap.put(object + 48, {heap.text, 24, 30, heap.node + 16});
    }
    for (uint32_t i = 0; i < TailHeap::kObjects; ++i) {
      const uint64_t object = heap.block(72);
      heap.put(object + 48, {object + 64, 15});
    }
    CHECK(heap.unused() == in_all);
  }
  SUBCASE("not where nothing tells strings from structures of C") {
    for (const uint64_t object : heap.objects) heap.put(object + 32, {heap.freed});
    heap.put(heap.objects[0] + 32, {heap.node + 16});
    CHECK(heap.unused().empty());
  }
}

TEST_CASE(
    "in nodes of a list are strings where what lies behind their capacity leads to free memory") {
  constexpr uint32_t kNodes = 20;
  TailHeap heap;
  std::vector<uint64_t> nodes;
  const uint64_t header = ContainerHeap::kData.value() + 8;
  for (uint32_t i = 0; i < kNodes; ++i) nodes.push_back(heap.block(56));
  const uint64_t larger = heap.block(72);
  nodes.push_back(larger);
  for (size_t i = 0; i < nodes.size(); ++i) {
    heap.put(nodes[i], {i + 1 < nodes.size() ? nodes[i + 1] : header,
                        i != 0 ? nodes[i - 1] : header, heap.text, 24, 30, heap.node});
  }
  heap.put(header, {nodes.front(), nodes.back(), nodes.size()});
  constexpr uint32_t kToFree = 3;
  for (uint32_t i = 0; i < kToFree; ++i) heap.put(nodes[i] + 40, {heap.freed});
  // With the one that has 16 bytes more.
  const auto to_blocks = TailHeap::words(3 + TailHeap::kObjects + kToFree, kNodes + 1 - kToFree, 5);
  CHECK(heap.kind(nodes[3]) == "std::list node");
  CHECK(heap.unused() == to_blocks);
  SUBCASE("not where nearly all lead to blocks: that may be a member of a structure") {
    heap.put(nodes[0] + 40, {heap.node});
    CHECK(heap.unused().empty());
  }
  SUBCASE("not where they lead past their first bytes, as to a base class") {
    for (const uint64_t node : nodes) heap.put(node + 40, {heap.node + 8});
    CHECK(heap.unused().empty());
  }
  SUBCASE("not in another object of that size") {
    const uint64_t object = heap.block(56);
    heap.put(object + 16, {heap.text, 24, 30, heap.node});
    CHECK(heap.unused() == to_blocks);
  }
  SUBCASE("not where it leads into the own node: that is a short string") {
    heap.put(nodes[10] + 40, {nodes[10] + 48});
    CHECK(heap.unused() == to_blocks);
    heap.put(nodes[11] + 40, {nodes[11] + 48});
    CHECK(heap.unused().empty());
  }
}

TEST_CASE("what lies behind a block is not of a string in it") {
  constexpr uint64_t kNextSize = 0x31;
  ContainerHeap heap;
  const uint64_t text = heap.block(56);
  const uint64_t holder = heap.block(56);
  heap.block(40);
  heap.put(holder + 40, {text, 0, kNextSize});
  CHECK(heap.kind(text) == "");
  heap.put(holder + 32, {text, 0, kNextSize});
  CHECK(heap.kind(text) == "std::string characters");
}

TEST_CASE("large binary data is not taken for characters") {
  ContainerHeap heap;
  const uint64_t text = heap.block(5000);
  const uint64_t holder = heap.block(56);
  heap.put(text, std::vector<uint64_t>(620, 0x0a0d09787878207e));
  heap.put(holder + 8, {text, 4960, 4991});
  CHECK(heap.kind(text) == "std::string characters");
  heap.put(text + 32, {0x0101010101010101});
  CHECK(heap.kind(text) == "");
  heap.put(text + 32, {0x787878787f787878});
  CHECK(heap.kind(text) == "");
}

TEST_CASE("wide characters fill their capacity, and no 0 is among them") {
  for (const unsigned width : {2U, 4U}) {
    CAPTURE(width);
    const std::string name =
        width == 2 ? "std::u16string characters" : "std::wstring/u32string characters";
    ContainerHeap heap;
    const uint64_t text = heap.block(104);
    const uint64_t holder = heap.block(56);
    const uint64_t capacity = 96 / width;
    const uint64_t size = capacity - 1;
    const uint64_t two = width == 2 ? 0x0063006200610060 : 0x0000006100000060;
    heap.put(text, std::vector<uint64_t>(12, two));
    const auto put_character = [&](uint64_t number, uint64_t value) {
      const auto bytes = std::as_bytes(std::span(&value, 1)).first(width);
      heap.target.put_bytes(Address(text + number * width), bytes);
    };
    put_character(size, 0);
    heap.put(holder + 8, {text, size, capacity});
    CHECK(heap.kind(text) == name);
    put_character(size, 'x');
    CHECK(heap.kind(text) == "");
    put_character(size, 0);
    put_character(3, 0);
    CHECK(heap.kind(text) == "");
    put_character(3, width == 2 ? 0xd83d : 0x1f600);
    CHECK(heap.kind(text) == name);
    if (width == 4) {
      put_character(3, 0x110000);
      CHECK(heap.kind(text) == "");
    }
  }
}

TEST_CASE("a block that has room for characters of two widths holds what lies in it") {
  ContainerHeap heap;
  const uint64_t text = heap.block(40);
  const uint64_t holder = heap.block(56);
  heap.put(holder + 8, {text, 17, 17});
  heap.put(text, {0x7878787878787878, 0x7878787878787878, 0x0078});
  heap.put(text + 16, {0x0078, 0, 0});
  heap.target.put_bytes(Address(text + 17), std::vector<std::byte>(1, std::byte{0}));
  CHECK(heap.kind(text) == "std::string characters");
  heap.put(text, {0x0061006100610061, 0x0061006100610061, 0x0061006100610061, 0x0061006100610061,
                  0x0000000000000061});
  heap.put(holder + 8, {text, 17, 17});
  CHECK(heap.kind(text) == "std::u16string characters");
}
