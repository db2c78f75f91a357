// What is seen of them in a heap. Single containers: container_storage_test.cpp.
#include "references/container_nodes.h"

#include <doctest/doctest.h>

#include <functional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "references/node_set.h"
#include "tests/unit/references/container_heap.h"

using namespace heapsnap;
using test::ContainerHeap;
using test::kOne;

namespace {

// No other thread, one, and one that cannot be started.
const std::vector<StartThread> kStarts = {
    {},
    [](std::function<void()> body) { return std::thread(std::move(body)); },
    [](std::function<void()>) -> std::thread {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }};

}  // namespace

TEST_CASE("whether a limit is reached depends on the looks that were used alone") {
  constexpr uint64_t kLooks = 70'000;
  for (const uint64_t more : {0U, 1U}) {
    LookLimit limit(kLooks);
    // One thread has taken some before the other one needs all.
    uint64_t unused = limit.take(LookLimit::kMostTogether);
    REQUIRE(unused == LookLimit::kMostTogether);
    uint64_t left = 0;
    for (uint64_t used = 0; used < kLooks + more; ++used) {
      if (left == 0) left = limit.take(LookLimit::kMostTogether);
      REQUIRE(left-- != 0);
    }
    CHECK_FALSE(limit.is_reached());
    limit.give_back(left);
    limit.give_back(unused);
    limit.settle();
    CHECK(limit.is_reached() == (more != 0));
  }
  LookLimit limit(0);
  while (limit.take(LookLimit::kMostTogether) != 0) {
  }
  CHECK(limit.is_reached());
}

// Many enough for two threads: the children of node i are 2 i + 1 and 2 i + 2.
TEST_CASE("a large tree has the nodes of all its parts") {
  constexpr uint64_t kNodes = (1 << 17) - 1;
  ContainerHeap heap(kNodes * 48 + (1 << 16));
  const uint64_t header = heap.block(56) + 8;
  std::vector<uint64_t> nodes(kNodes);
  for (uint64_t& node : nodes) node = heap.block(40);
  for (uint64_t i = 0; i < kNodes; ++i) {
    const uint64_t parent = i == 0 ? header : nodes[(i - 1) / 2];
    const bool is_leaf = i >= kNodes / 2;
    heap.put(nodes[i],
             {i % 2, parent, is_leaf ? 0 : nodes[2 * i + 1], is_leaf ? 0 : nodes[2 * i + 2]});
  }
  heap.put(header, {0, nodes[0], nodes[kNodes / 2], nodes.back(), kNodes});
  for (const StartThread& start : kStarts) {
    CHECK(heap.count(StorageKind::kTreeNode, start) == kNodes);
  }
  uint64_t wrong = 0;
  uint64_t value = 0;
  SUBCASE("one more") {
    wrong = header + 32, value = kNodes + 1;
  }
  SUBCASE("one less") {
    wrong = header + 32, value = kNodes - 1;
  }
  SUBCASE("a leaf with another parent") {
    wrong = nodes[kNodes - 2] + 8, value = nodes[1];
  }
  SUBCASE("a node near the root with another parent") {
    wrong = nodes[5] + 8, value = nodes[1];
  }
  SUBCASE("a last one with others behind it") {
    wrong = header + 24, value = nodes[1];
  }
  SUBCASE("a leaf that leads back") {
    wrong = nodes[kNodes - 2] + 16, value = nodes[0];
  }
  if (wrong == 0) return;
  heap.put(wrong, {value});
  for (const StartThread& start : kStarts) CHECK(heap.count(StorageKind::kTreeNode, start) == 0);
}

TEST_CASE("a large tree may have one child a node") {
  constexpr uint64_t kNodes = (1 << 17) - 1;
  ContainerHeap heap(kNodes * 48 + (1 << 16));
  const uint64_t header = heap.block(56) + 8;
  std::vector<uint64_t> nodes(kNodes);
  for (uint64_t& node : nodes) node = heap.block(40);
  for (uint64_t i = 0; i < kNodes; ++i) {
    heap.put(nodes[i], {1, i == 0 ? header : nodes[i - 1], 0, i + 1 < kNodes ? nodes[i + 1] : 0});
  }
  heap.put(header, {0, nodes[0], nodes[0], nodes.back(), kNodes});
  for (const StartThread& start : kStarts) {
    CHECK(heap.count(StorageKind::kTreeNode, start) == kNodes);
  }
}

TEST_CASE("many containers are followed on two threads") {
  constexpr uint64_t kTables = 300;
  constexpr uint64_t kNodes = 300;
  ContainerHeap heap(kTables * (kNodes * 32 + 4096) + (1 << 16));
  uint64_t damaged = 0;
  for (uint64_t table = 0; table < kTables; ++table) {
    const uint64_t buckets = heap.block(8 * kNodes + 8);
    const uint64_t holder = heap.block(72);
    uint64_t next = 0;
    for (uint64_t i = 0; i < kNodes; ++i) {
      const uint64_t node = heap.block(24);
      heap.put(node, {next, i});
      next = node;
    }
    const bool is_damaged = table % 7 == 3;
    damaged += is_damaged ? 1 : 0;
    heap.put(holder,
             {buckets, kNodes + 1, next, is_damaged ? kNodes - 1 : kNodes, kOne, kNodes + 1});
  }
  for (const StartThread& start : kStarts) {
    CHECK(heap.count(StorageKind::kHashNode, start) == (kTables - damaged) * kNodes);
  }
}

TEST_CASE("of a ring in which many blocks look like its list no nodes are known, in each run") {
  constexpr uint64_t kRing = 70000;
  ContainerHeap heap(kRing * 48 + (1 << 20));
  std::vector<uint64_t> ring;
  for (uint64_t i = 0; i < kRing; ++i) ring.push_back(heap.block(i % 2 == 0 ? 24 : 40));
  for (uint64_t i = 0; i < kRing; ++i) {
    const bool looks_like_list = i % 100 == 50;
    heap.put(ring[i], {ring[(i + 1) % kRing], ring[(i + kRing - 1) % kRing],
                       looks_like_list ? kRing - 1 : 5});
  }
  const uint64_t node = heap.block(24);
  heap.put(node, {ContainerHeap::kData.value(), ContainerHeap::kData.value()});
  heap.put(ContainerHeap::kData.value(), {node, node, 1});
  for (const StartThread& start : kStarts) {
    for (int run = 0; run < 3; ++run) {
      CHECK(heap.count(StorageKind::kListNode, start) == 1);
    }
  }
}

TEST_CASE("the last nodes of many tables may lie anywhere") {
  constexpr uint64_t kTables = 20000;
  constexpr uint64_t kBuckets = 13;
  constexpr uint64_t kStep = 7919;  // a prime
  ContainerHeap heap(kTables * 1300);
  std::vector<uint64_t> first;
  std::vector<uint64_t> last;
  for (uint64_t table = 0; table < kTables; ++table) {
    first.push_back(heap.block(24));
    last.push_back(heap.block(24));
    heap.block(1000);
  }
  for (uint64_t table = 0; table < kTables; ++table) {
    const uint64_t buckets = heap.block(8 * kBuckets);
    heap.put(first[table], {last[table * kStep % kTables]});
    heap.put(heap.block(56), {buckets, kBuckets, first[table], 2, kOne, kBuckets});
  }
  for (const StartThread& start : kStarts) {
    CHECK(heap.count(StorageKind::kHashNode, start) == 2 * kTables);
  }
}

TEST_CASE("a set of nodes has what was added, few or many") {
  constexpr BlockNumber kBlocks = 1 << 20;
  NodeSet nodes(kBlocks);
  for (const BlockNumber step : {1 << 18, 7, 1}) {
    CAPTURE(step);
    nodes.clear();
    CHECK(nodes.added() == 0);
    uint64_t sum = 0;
    for (BlockNumber i = kBlocks; i >= step; i -= step) {
      nodes.add(i - 1);
      sum += i - 1;
    }
    CHECK(nodes.added() == kBlocks / step);
    uint64_t count = 0;
    nodes.each([&](BlockNumber block) {
      ++count;
      sum -= block;
    });
    CHECK(count == kBlocks / step);
    CHECK(sum == 0);
  }
}

TEST_CASE("what is left over of a hash table's words elsewhere makes no other node unknown") {
  constexpr uint64_t kNodes = 3000;
  constexpr uint64_t kBuckets = 3001;
  ContainerHeap heap;
  const uint64_t buckets = heap.block(8 * kBuckets);
  std::vector<uint64_t> nodes;
  for (uint64_t i = 0; i < kNodes; ++i) nodes.push_back(heap.block(24));
  for (uint64_t i = 0; i + 1 < kNodes; ++i) heap.put(nodes[i], {nodes[i + 1]});
  std::vector<ContainerWords> words;
  for (int i = 0; i < 20; ++i) {
    const Address table = ContainerHeap::kData + 64 * i;
    heap.put(table.value(), {buckets, kBuckets, nodes[0], kNodes, kOne, kBuckets});
    words.push_back({kNoBlock, 0, table + 16, 1});
  }
  CHECK(heap.count(StorageKind::kHashNode, {}) == kNodes);
  heap.look([&](const BlockMap&, ContainerStorage& all) { CHECK(all.take_containers() == words); });
}
