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

TEST_CASE("of a string whose characters are in a block, half of the buffer is not used") {
  constexpr int kHolders = 16;
  ContainerHeap heap;
  const uint64_t text = heap.block(40);
  const uint64_t node = heap.block(88);
  const uint64_t freed = heap.block(88, ChunkState::kTcache);
  heap.put(text, {0x7878787878787878, 0x7878787878787878, 0x7878787878787878});
  std::vector<uint64_t> holders;  // the first is block 3
  const auto add_holders = [&](uint64_t left_over) {
    const uint64_t holder = heap.block(72);
    heap.put(holder + 8, {text, 24, 30, left_over, node});
    holders.push_back(holder);
  };
  for (int i = 0; i < kHolders; ++i) add_holders(i < 4 ? node + 16 : node);
  const auto unused = [&heap] {
    std::vector<UnusedWord> found;
    heap.look([&](const BlockMap&, ContainerStorage& all) { found = all.take_unused_words(); });
    return found;
  };
  const auto in_all = [&](uint32_t count) {
    std::vector<UnusedWord> all;
    for (uint32_t i = 0; i < count; ++i) all.push_back({3 + i, 4});
    return all;
  };
  CHECK(unused() == in_all(kHolders));
  SUBCASE("if it holds an address of a block in use") {
    heap.put(holders[15] + 32, {freed});
    CHECK(unused() == in_all(15));
    heap.put(holders[14] + 32, {0x7878});
    add_holders(node);
    auto expected = in_all(17);
    expected.erase(expected.begin() + 14, expected.begin() + 16);
    CHECK(unused() == expected);
  }
  SUBCASE("of a block with a rest that was too small for a chunk, as of the others") {
    const uint64_t larger = heap.block(88);
    heap.put(larger + 8, {text, 24, 30, node});
    CHECK(unused() == in_all(kHolders + 1));
    heap.put(holders[0] + 32, {node});
    CHECK(unused().empty());
  }
  SUBCASE("free memory is elsewhere, too") {
    for (int i = 0; i < 4; ++i) heap.put(holders[static_cast<size_t>(i)] + 32, {freed});
    CHECK(unused().size() == 12);
  }
  SUBCASE("not where nearly all lead to first bytes: that may be a member of a structure") {
    heap.put(holders[0] + 32, {node});
    CHECK(unused().empty());
  }
  SUBCASE("not of few") {
    heap.put(holders[0] + 32, {0});
    CHECK(unused().empty());
  }
  SUBCASE("not where these are no characters") {
    heap.put(text + 24, {0x78});
    CHECK(unused().empty());
  }
  SUBCASE("not past the block's end") {
    for (const uint64_t holder : holders) heap.put(holder + 48, {text, 24, 30, node + 16});
    CHECK(unused() == in_all(kHolders));
  }
  SUBCASE("not outside of blocks") {
    heap.put(ContainerHeap::kData.value() + 8, {text, 24, 30, node + 16});
    CHECK(unused() == in_all(kHolders));
  }
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
