#include <doctest/doctest.h>

#include <vector>

#include "tests/unit/references/container_heap.h"

using namespace heapsnap;
using test::ContainerHeap;

TEST_CASE("a list is found behind a million nodes that look like lists") {
  constexpr uint64_t kNodes = (1 << 20) + 10'000;
  const uint64_t header = ContainerHeap::kData.value() + 64;
  ContainerHeap heap(64 << 20);
  uint64_t before = heap.block(24);
  for (uint64_t i = 0; i < kNodes; ++i) {
    const uint64_t node = heap.block(24);
    heap.put(node, {before, before, 1});  // | left | right | key |
    before = node;
  }
  const uint64_t element = heap.block(24);
  heap.put(element, {header, header});
  heap.put(header, {element, element, 1});
  CHECK(heap.kind(element) == "std::list node");
}

TEST_CASE("the nodes of a list lead to and fro") {
  ContainerHeap heap;
  const uint64_t nodes[] = {heap.block(24), heap.block(24), heap.block(24)};
  const uint64_t list = heap.block(40) + 8;
  heap.put(list, {nodes[0], nodes[2], 3});
  heap.put(nodes[0], {nodes[1], list});
  heap.put(nodes[1], {nodes[2], nodes[0]});
  heap.put(nodes[2], {list, nodes[1]});
  const auto are_nodes = [&] {
    for (const uint64_t node : nodes) {
      if (heap.kind(node) != "std::list node") return false;
    }
    return true;
  };
  CHECK(are_nodes());
  SUBCASE("as many as it says") {
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{4}, UINT64_MAX}) {
      heap.put(list + 16, {count});
      CHECK_FALSE(are_nodes());
      CHECK(heap.kind(nodes[0]) == "");
    }
  }
  SUBCASE("not round and round") {
    heap.put(nodes[2], {nodes[0], nodes[1]});
    CHECK(heap.kind(nodes[0]) == "");
  }
  SUBCASE("back to the last one") {
    heap.put(nodes[1] + 8, {nodes[2]});
    CHECK(heap.kind(nodes[0]) == "");
  }
  SUBCASE("to the last one") {
    heap.put(list + 8, {nodes[1]});
    CHECK(heap.kind(nodes[0]) == "");
  }
  SUBCASE("not into the midst of blocks") {
    heap.put(nodes[1], {nodes[2] + 8});
    CHECK(heap.kind(nodes[0]) == "");
  }
  SUBCASE("unless some memory is in swap, which stays there") {
    heap.target.editable_process().swap = 4096;
    CHECK(heap.kind(nodes[0]) == "");
  }
}

TEST_CASE("a list of numbers is found among its nodes, which look like lists") {
  constexpr uint64_t kNodes = 3000;
  for (const bool is_outside : {true, false}) {
    for (const uint64_t least : {uint64_t{0}, kNodes + 1}) {
      CAPTURE(is_outside);
      CAPTURE(least);
      ContainerHeap heap;
      for (uint64_t i = 0; i < kNodes; ++i) heap.block(24);  // numbers up to twice as many
      std::vector<uint64_t> ring;
      for (uint64_t i = 0; i < kNodes; ++i) ring.push_back(heap.block(24));
      ring.push_back(is_outside ? ContainerHeap::kData.value() : heap.block(24));
      for (uint64_t i = 0; i <= kNodes; ++i) {
        const uint64_t next = ring[(i + 1) % ring.size()];
        const uint64_t previous = ring[(i + kNodes) % ring.size()];
        heap.put(ring[i], {next, previous, i == kNodes ? kNodes : least + i});
      }
      CHECK(heap.count(StorageKind::kListNode, {}) == kNodes);
    }
  }
}

TEST_CASE("a list of numbers in a block as large as its nodes, and the node that looks like it") {
  constexpr uint64_t kNodes = 1000;
  ContainerHeap heap;
  std::vector<uint64_t> ring;
  // The list is made before its nodes. The last one, or one in the middle, is as many as there are.
  uint64_t alike = kNodes;
  uint64_t bytes = 24;
  SUBCASE("beside it") {}
  SUBCASE("elsewhere") {
    alike = kNodes / 2;
  }
  SUBCASE("with a rest that was too small for a chunk of its own") {
    alike = kNodes / 2;
    bytes = 40;
  }
  for (uint64_t i = 0; i <= kNodes; ++i) ring.push_back(heap.block(i == alike ? bytes : 24));
  for (uint64_t i = 0; i <= kNodes; ++i) {
    const bool is_list = i == 0 || i == alike;
    heap.put(ring[i], {ring[(i + 1) % ring.size()], ring[(i + kNodes) % ring.size()],
                       is_list ? kNodes : kNodes + i});
  }
  // Nothing tells the list from that one: the first one has the others, and either the words.
  CHECK(heap.kind(ring[0]) == "");
  CHECK(heap.count(StorageKind::kListNode, {}) == kNodes);
  heap.look([&](const BlockMap& map, ContainerStorage& all) {
    BlockMap::Hint hint;
    const BlockNumber header = map.find(ring[0], hint)->block;
    const auto other = static_cast<BlockNumber>(header + alike);
    const std::vector<ContainerWords> words = {{header, 0, {}, 2}, {other, 0, {}, 2}};
    CHECK(all.take_containers() == words);
  });
}

TEST_CASE("rings of nodes that are no list's are followed once") {
  constexpr uint64_t kNodes = 3000;
  ContainerHeap heap;
  std::vector<uint64_t> ring;
  for (uint64_t i = 0; i < kNodes; ++i) ring.push_back(heap.block(24));
  for (uint64_t i = 0; i < kNodes; ++i) {
    heap.put(ring[i], {ring[(i + 1) % kNodes], ring[(i + kNodes - 1) % kNodes], i});
  }
  const uint64_t node = heap.block(24);
  heap.put(node, {ContainerHeap::kData.value(), ContainerHeap::kData.value()});
  heap.put(ContainerHeap::kData.value(), {node, node, 1});
  // The node whose number is that of the others is the list of them.
  CHECK(heap.count(StorageKind::kListNode, {}) == kNodes - 1 + 1);
  SUBCASE("and none is known if each node has that number") {
    for (const uint64_t each : ring) heap.put(each + 16, {kNodes - 1});
    CHECK(heap.count(StorageKind::kListNode, {}) == 1);
  }
}
