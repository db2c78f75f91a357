// Blocks with the characters of strings, and what the strings do not use.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
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
  SUBCASE("and not all of them are zeros") {
    heap.put(text, {0, 0, 0x78});
    CHECK(heap.kind(text) == "std::string characters");
    heap.put(text, {0, 0, 0});
    CHECK(heap.kind(text) == "");
  }
  SUBCASE("and more than what a std::string has room for itself") {
    heap.put(holder + 8, {text, 8, 15});
    heap.put(text + 8, {0});
    CHECK(heap.kind(text) == "");
  }
}

TEST_CASE("of a string with next to no text, nothing where its characters were leads to a block") {
  ContainerHeap heap;
  const uint64_t object = heap.block(104);
  const uint64_t holder = heap.block(56);
  for (const uint64_t size : {0, 4}) {
    CAPTURE(size);
    heap.put(object, {0x7878, 0x7878787878787878, 0, 0x7878787878787878});
    heap.put(object + (size == 0 ? 0 : 2), {0});
    heap.put(holder + 8, {object, size, 96});
    CHECK(heap.kind(object) == "std::string characters");
    heap.put(object + 48, {holder});
    CHECK(heap.kind(object) == "");
    heap.put(object + 48, {0});
  }
}

namespace {

// Lists whose nodes have a string at their third word. Of a long one the characters are in a block,
// and an address is behind its capacity.
struct TailHeap : ContainerHeap {
  using Nodes = std::vector<uint64_t>;
  static constexpr uint32_t kLong = 16;
  static constexpr uint32_t kTail = 5;  // word of a node
  const uint64_t text = block(40);
  const uint64_t object = block(88);
  const uint64_t freed = block(88, ChunkState::kTcache);
  uint64_t next_header = kData.value() + 8;

  TailHeap() { put(text, {0x7878787878787878, 0x7878787878787878, 0x7878787878787878}); }
  uint64_t add_long(uint64_t bytes = 56) {
    const uint64_t node = block(bytes);
    put(node + 16, {text, 24, 30, object});
    return node;
  }
  uint64_t add_short(uint64_t size = 15) {
    const uint64_t node = block(56);
    put(node + 16, {node + 32, size, 0x7878, object});
    return node;
  }
  Nodes long_ones(uint64_t bytes) {
    Nodes nodes;
    for (uint32_t i = 0; i < kLong; ++i) nodes.push_back(add_long(bytes));
    return nodes;
  }
  // Makes a list of what is in `nodes`, so many long ones and so many short ones.
  Nodes list(uint32_t long_ones, uint32_t short_ones, Nodes nodes = {}) {
    for (uint32_t i = 0; i < long_ones; ++i) nodes.push_back(add_long());
    for (uint32_t i = 0; i < short_ones; ++i) nodes.push_back(add_short());
    const uint64_t header = next_header;
    next_header += 32;
    for (size_t i = 0; i < nodes.size(); ++i) {
      put(nodes[i], {i + 1 < nodes.size() ? nodes[i + 1] : header, i != 0 ? nodes[i - 1] : header});
    }
    put(header, {nodes.front(), nodes.back(), nodes.size()});
    return nodes;
  }
  // The addresses of nodes whose tails are not used.
  Nodes unused(const StartThread& start = {}) {
    Nodes found;
    const auto see = [&](const BlockMap& map, ContainerStorage& all) {
      for (const UnusedWord& word : all.take_unused_words()) {
        CHECK(word.word == kTail);
        found.push_back(map.address_of(word.block).value());
      }
    };
    look(see, false, start);
    return found;
  }
};

TailHeap::Nodes first_of(const TailHeap::Nodes& nodes, size_t count) {
  return {nodes.begin(), nodes.begin() + static_cast<ptrdiff_t>(count)};
}

}  // namespace

TEST_CASE("of a string whose characters are in a block, half of the buffer is not used") {
  TailHeap heap;
  const TailHeap::Nodes nodes = heap.list(TailHeap::kLong, 4);
  const TailHeap::Nodes long_ones = first_of(nodes, TailHeap::kLong);
  const uint64_t last_short = nodes.back();
  REQUIRE(heap.kind(nodes[3]) == "std::list node");
  CHECK(heap.unused() == long_ones);
  SUBCASE("where four short ones lead to themselves") {
    heap.put(last_short + 16, {last_short + 40});
    CHECK(heap.unused().empty());
  }
  SUBCASE("of a length that has room there") {
    heap.put(last_short + 24, {16});
    CHECK(heap.unused().empty());
    heap.put(last_short + 24, {0});
    CHECK(heap.unused() == long_ones);
  }
  SUBCASE("where there is an address of a block in use") {
    heap.put(nodes[TailHeap::kLong - 1] + 40, {heap.freed});
    CHECK(heap.unused() == first_of(nodes, TailHeap::kLong - 1));
  }
  SUBCASE("not of few") {
    heap.put(nodes[0] + 40, {0});
    CHECK(heap.unused().empty());
  }
  SUBCASE("not where these are no characters") {
    heap.put(heap.text + 24, {0x78});
    CHECK(heap.unused().empty());
  }
  SUBCASE("not past the block's end") {
    TailHeap other;
    const TailHeap::Nodes small = other.long_ones(40);
    other.list(0, 4, small);
    REQUIRE(other.kind(small[3]) == "std::list node");
    CHECK(other.unused().empty());
  }
  SUBCASE("also of nodes that have 16 bytes more") {
    TailHeap other;
    const TailHeap::Nodes all = other.list(TailHeap::kLong, 4, other.long_ones(72));
    CHECK(other.unused() == first_of(all, 2 * TailHeap::kLong));
  }
}

TEST_CASE("strings elsewhere do not tell that structures of the same size are strings") {
  TailHeap heap;
  heap.list(TailHeap::kLong, 0);
  CHECK(heap.unused().empty());
  SUBCASE("as nodes of another list") {
    const TailHeap::Nodes others = heap.list(0, 100);
    REQUIRE(heap.kind(others[0]) == "std::list node");
  }
  SUBCASE("as larger nodes of this list, of another class") {
    TailHeap other;
    const TailHeap::Nodes nodes = other.long_ones(104);
    other.list(0, 100, nodes);
    REQUIRE(other.kind(nodes[0]) == "std::list node");
    CHECK(other.unused().empty());
  }
  SUBCASE("as objects of their own") {
    for (int i = 0; i < 100; ++i) heap.add_short();
  }
  CHECK(heap.unused().empty());
}

TEST_CASE("few short strings among many nodes tell nothing") {
  constexpr uint32_t kNodes = 8000;
  TailHeap heap;
  const TailHeap::Nodes nodes = heap.list(kNodes, 4);
  REQUIRE(heap.kind(nodes[0]) == "std::list node");
  CHECK(heap.unused().empty());
  SUBCASE("a hundredth of them does, wherever they are") {
    TailHeap other;
    TailHeap::Nodes all;
    for (uint32_t i = 0; i < kNodes; ++i) {
      all.push_back(i % 50 == 0 && i >= kNodes / 2 ? other.add_short() : other.add_long());
    }
    other.list(0, 0, all);
    CHECK(other.unused().size() == kNodes - kNodes / 100);
  }
}

TEST_CASE("of many containers each gets its share of the looks for short strings") {
  constexpr uint32_t kLists = 120;
  constexpr uint32_t kNodes = 600;  // together more than all looks, and enough for another thread
  TailHeap heap;
  for (uint32_t i = 0; i < kLists; ++i) heap.list(kNodes, 0);
  const TailHeap::Nodes last = heap.list(kNodes, kNodes / 10);
  CHECK(heap.unused() == first_of(last, kNodes));
  CHECK(heap.unused([](std::function<void()> body) { return std::thread(std::move(body)); }) ==
        first_of(last, kNodes));
}

TEST_CASE("a string that lies where two pieces of memory meet is seen whole") {
  constexpr uint64_t kPiece = 1 << 20;
  constexpr uint64_t kMeet = test::kHeap + kPiece;
  constexpr uint64_t kChunkHeader = 16;
  TailHeap heap;
  // Up to a node whose string has its capacity, and what is behind it, in the next piece.
  while (kMeet - heap.end > 4096) heap.block(1016);
  heap.block(kMeet - 32 - kChunkHeader - sizeof(uint64_t) - heap.end);
  const uint64_t node = heap.add_long();
  REQUIRE(node + 32 == kMeet);
  const TailHeap::Nodes nodes = heap.list(TailHeap::kLong, 4, {node});
  CHECK(heap.unused() == first_of(nodes, TailHeap::kLong + 1));
}

TEST_CASE("a word beside a page that is not there is looked at without reading that") {
  constexpr uint64_t kPage = 4096;
  ContainerHeap heap;
  const uint64_t large = heap.block(4 * kPage + 8);
  const uint64_t page = (large / kPage + 2) * kPage;
  heap.put(page, {large, large});  // neither the page before it nor the one behind it was touched
  heap.put(page + kPage - 16, {large, large});
  CHECK(heap.kind(large) == "");
  CHECK(heap.target.costly_pages_read() == 0);
}

TEST_CASE("objects that are in no container may be of any type") {
  TailHeap heap;
  for (int i = 0; i < 100; ++i) {
    heap.add_long();
    heap.add_short();
  }
  CHECK(heap.unused().empty());
}

TEST_CASE(
    "in nodes of a list are strings where what lies behind their capacity leads to free memory") {
  constexpr uint32_t kNodes = 20;
  constexpr uint32_t kToFree = 3;
  TailHeap heap;
  const TailHeap::Nodes nodes = heap.list(kNodes, 0);
  for (uint32_t i = 0; i < kToFree; ++i) heap.put(nodes[i] + 40, {heap.freed});
  const TailHeap::Nodes to_blocks(nodes.begin() + kToFree, nodes.end());
  CHECK(heap.unused() == to_blocks);
  SUBCASE("not where nearly all lead to blocks: that may be a member of a structure") {
    heap.put(nodes[0] + 40, {heap.object});
    CHECK(heap.unused().empty());
  }
  SUBCASE("not where they lead past their first bytes, as to a base class") {
    for (const uint64_t node : nodes) heap.put(node + 40, {heap.object + 8});
    CHECK(heap.unused().empty());
  }
  SUBCASE("of large chunks, too") {
    const uint64_t large = heap.block((128 << 10) - 8, ChunkState::kLargebin) + 4096;
    heap.block(24);
    for (uint32_t i = 0; i < kToFree; ++i) heap.put(nodes[i] + 40, {large});
    CHECK(heap.unused() == to_blocks);
  }
  SUBCASE("not where they lead out of malloc's memory, as to an object that is not on the heap") {
    for (uint32_t i = 0; i < kNodes / 2; ++i) heap.put(nodes[i] + 40, {heap.end + (1 << 16)});
    CHECK(heap.unused().empty());
  }
  SUBCASE("not in another object of that size") {
    heap.add_long();
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

TEST_CASE("a large block that is empty by its size may be a stack or an arena") {
  ContainerHeap heap;
  const uint64_t stack = heap.block(65'544);
  const uint64_t holder = heap.block(56);
  heap.put(holder + 8, {stack, 0, 65'536});
  CHECK(heap.kind(stack) == "");
  heap.put(stack, {0x7878787878787878});
  heap.put(holder + 8, {stack, 8, 65'536});
  CHECK(heap.kind(stack) == "std::string characters");
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
