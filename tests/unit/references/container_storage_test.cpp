#include "references/container_storage.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/references/container_heap.h"

using namespace heapsnap;
using test::ContainerHeap;
using test::kOne;
using Slack = std::vector<SlackWords>;

TEST_CASE("the storage of a vector reaches from its begin to the end of its block") {
  ContainerHeap heap;
  const uint64_t storage = heap.block(104);
  const uint64_t holder = heap.block(56);
  heap.put(holder + 8, {storage, storage + 40, storage + 96});
  CHECK(heap.kind(storage) == "std::vector storage");
  CHECK(heap.kind(holder) == "");
  SUBCASE("not less far") {
    heap.put(holder + 8, {storage, storage + 40, storage + 48});
    CHECK(heap.kind(storage) == "");
  }
  SUBCASE("nor past it") {
    heap.put(holder + 8, {storage, storage + 40, storage + 112});
    CHECK(heap.kind(storage) == "");
  }
  SUBCASE("not when nothing is in it: so do many things look") {
    heap.put(holder + 8, {storage, storage, storage + 96});
    CHECK(heap.kind(storage) == "");
  }
  SUBCASE("with its end within") {
    heap.put(holder + 8, {storage, storage + 97, storage + 96});
    CHECK(heap.kind(storage) == "");
  }
  SUBCASE("not as a part of a block") {
    heap.put(holder + 8, {storage + 8, storage + 40, storage + 96});
    CHECK(heap.kind(storage) == "");
  }
  SUBCASE("not as the buffer of a stream, which has more pointers into it") {
    heap.put(holder, {storage, storage, storage + 40, storage + 96});
    CHECK(heap.kind(storage) == "");
    heap.put(holder, {0, storage, storage + 40, storage + 96, storage + 96});
    CHECK(heap.kind(storage) == "");
  }
  SUBCASE("not by free memory") {
    heap.put(holder + 8, {0, 0, 0});
    const uint64_t freed = heap.block(56, ChunkState::kTcache);
    heap.put(freed + 8, {storage, storage + 40, storage + 96});
    CHECK(heap.kind(storage) == "");
  }
}

TEST_CASE("what malloc gave beyond the capacity of a vector is slack") {
  ContainerHeap heap;
  const uint64_t node = heap.block(40);
  const uint64_t storage = heap.block(104);
  const uint64_t other = heap.block(104);
  const uint64_t holder = heap.block(120);
  heap.put(storage, std::vector<uint64_t>(13, node));
  heap.put(other, std::vector<uint64_t>(13, node));
  heap.put(holder + 8, {storage, storage + 96, storage + 96});
  CHECK(heap.slack() == Slack{{2, 12}});
  SUBCASE("if it holds an address") {
    heap.put(storage + 96, {0});
    CHECK(heap.slack().empty());
  }
  SUBCASE("not where there is none") {
    heap.put(holder + 8, {storage, storage + 104, storage + 104});
    CHECK(heap.slack().empty());
  }
  SUBCASE("half a word is an element's") {
    heap.put(holder + 8, {storage, storage + 84, storage + 84});
    CHECK(heap.slack() == Slack{{2, 11}});
  }
  SUBCASE("as far as all agree that look like its vector") {
    heap.put(holder + 40, {storage, storage + 72, storage + 72});
    CHECK(heap.slack() == Slack{{2, 12}});
  }
  SUBCASE("in ascending order of blocks") {
    heap.put(holder + 40, {other, other + 88, other + 88});
    CHECK(heap.slack() == Slack{{2, 12}, {3, 11}});
  }
}

TEST_CASE("what lies between the last element of a vector and its capacity is spare") {
  ContainerHeap heap;
  const uint64_t storage = heap.block(104);
  const uint64_t holder = heap.block(120);
  heap.put(storage + 88, {holder});
  heap.put(holder + 8, {storage, storage + 36, storage + 96});
  CHECK(heap.slack() == Slack{{1, 12, 0, 7}});
  SUBCASE("unless an element is there") {
    heap.put(holder + 8, {storage, storage + 96, storage + 96});
    CHECK(heap.slack().empty());
  }
  SUBCASE("as far as all agree that look like its vector") {
    heap.put(holder + 40, {storage, storage + 72, storage + 96});
    CHECK(heap.slack() == Slack{{1, 12, 0, 3}});
  }
  SUBCASE("one with an iterator beside it, too, though it does not tell that there is one") {
    heap.put(holder + 40, {storage, storage + 72, storage + 96, storage + 16});
    CHECK(heap.slack() == Slack{{1, 12, 0, 3}});
    heap.put(holder + 8, {0, 0, 0});
    CHECK(heap.slack().empty());
  }
  SUBCASE("one on a stack, too") {
    heap.put(ContainerHeap::kData.value() + 64, {storage, storage + 72, storage + 96});
    CHECK(heap.slack(true) == Slack{{1, 12, 0, 3}});
    heap.put(holder + 8, {0, 0, 0});
    CHECK(heap.slack(true).empty());
  }
  SUBCASE("all of what is larger than an object, when it was cleared") {
    heap.put(holder + 8, {storage, storage, storage + 96});
    CHECK(heap.slack().empty());
    const uint64_t large = heap.block(520 + 16);
    heap.put(large + 8, {holder});
    heap.put(holder + 8, {large, large, large + 528});
    CHECK(heap.slack() == Slack{{3, 66, 0, 66}});
    CHECK(heap.kind(large) == "");
    const uint64_t other = heap.block(72);
    heap.put(holder + 32, {other + 24});
    CHECK(heap.slack() == Slack{{3, 66, 0, 66}});
    // As in a deque's map.
    heap.put(other + 24, {large});
    CHECK(heap.slack().empty());
  }
  SUBCASE("of an array, not of an object that three words lead to") {
    heap.put(holder + 8, {storage, storage, storage});
    CHECK(heap.slack().empty());
  }
}

TEST_CASE("the buffer of a file stream is known by where the stream reads and writes") {
  ContainerHeap heap;
  const uint64_t buffer = heap.block(8200);
  const uint64_t stream = heap.block(248);
  heap.put(stream + 8, {buffer, buffer, buffer, buffer, buffer + 117, buffer + 8191});
  heap.put(stream + 152, {buffer, 8191, 1});
  CHECK(heap.kind(buffer) == "std::filebuf buffer");
  SUBCASE("in none of which it is outside") {
    heap.put(stream + 8, {buffer - 8});
    CHECK(heap.kind(buffer) == "");
  }
  SUBCASE("and by its size") {
    heap.put(stream + 152, {buffer, 4096, 1});
    CHECK(heap.kind(buffer) == "");
  }
}

TEST_CASE("a variable holds a vector, a stack may have held one") {
  ContainerHeap heap;
  const uint64_t storage = heap.block(104);
  heap.put(ContainerHeap::kData.value() + 64, {storage, storage + 40, storage + 96});
  CHECK(heap.kind(storage) == "std::vector storage");
  CHECK(heap.kind(storage, true) == "");
}

TEST_CASE("the words of a deque's map between its ends hold its buffers") {
  ContainerHeap heap;
  const uint64_t map = heap.block(72);
  const uint64_t buffers[] = {heap.block(520), heap.block(520), heap.block(520)};
  const uint64_t stale = heap.block(520);
  const uint64_t deque = heap.block(184);
  heap.put(map + 8, {stale, buffers[0], buffers[1], buffers[2], stale});
  const auto put_iterator = [&](uint64_t at, uint64_t buffer, uint64_t element, uint64_t word) {
    heap.put(at, {buffer + element, buffer, buffer + 512, word});
  };
  heap.put(deque, {map, 8});
  put_iterator(deque + 16, buffers[0], 8, map + 16);
  put_iterator(deque + 48, buffers[2], 504, map + 32);
  const auto has_buffers = [&] {
    for (const uint64_t buffer : buffers) {
      if (heap.kind(buffer) != "std::deque buffer") return false;
    }
    return heap.kind(map) == "std::deque map";
  };
  CHECK(has_buffers());
  CHECK(heap.kind(stale) == "");
  SUBCASE("with what was before the first element and behind each buffer") {
    heap.put(buffers[0], {deque});
    heap.put(buffers[0] + 504, {deque});
    heap.put(buffers[1] + 512, {deque});
    heap.put(buffers[2] + 504, {deque, deque});
    CHECK(heap.slack() == Slack{{1, 5, 2}, {2, 64, 1}, {3, 64}, {4, 64, 0, 1}});
    // A copy from before the last element was removed.
    heap.put(deque + 96, {map, 8});
    put_iterator(deque + 112, buffers[0], 8, map + 16);
    put_iterator(deque + 144, buffers[2], 508, map + 32);
    CHECK(heap.slack() == Slack{{1, 5, 2}, {2, 64, 1}, {3, 64}, {4, 64}});
  }
  SUBCASE("but of what it uses, nothing is known where words of an earlier state are left") {
    heap.put(buffers[0], {deque});
    heap.put(buffers[1] + 512, {deque});
    const uint64_t left = heap.block(88);
    heap.put(left, {map, 8});
    put_iterator(left + 16, buffers[0], 8, map + 16);
    put_iterator(left + 48, buffers[1], 504, map + 24);
    CHECK(heap.slack() == Slack{{3, 64}});
    CHECK(has_buffers());
  }
  SUBCASE("of one buffer, and nothing in it") {
    heap.put(buffers[0], std::vector<uint64_t>(64, deque));
    put_iterator(deque + 48, buffers[0], 8, map + 16);
    CHECK(heap.kind(buffers[0]) == "std::deque buffer");
    CHECK(heap.kind(buffers[1]) == "");
  }
  SUBCASE("in their order") {
    put_iterator(deque + 48, buffers[1], 504, map + 32);
    CHECK(heap.kind(map) == "");
  }
  SUBCASE("all of them") {
    heap.put(map + 24, {0});
    CHECK(heap.kind(buffers[0]) == "");
    CHECK(heap.kind(map) == "");
  }
  SUBCASE("each as large as the iterators say") {
    heap.put(map + 24, {buffers[1] + 8});
    CHECK(heap.kind(buffers[0]) == "");
  }
  SUBCASE("within the map") {
    heap.put(deque + 8, {4});
    CHECK(heap.kind(map) == "");
  }
  SUBCASE("with an element within the buffer") {
    put_iterator(deque + 16, buffers[0], 512, map + 16);
    CHECK(heap.kind(map) == "");
  }
}

TEST_CASE("where containers keep the addresses of their nodes is known with these") {
  ContainerHeap heap;
  const auto containers = [&heap] {
    std::vector<ContainerWords> found;
    heap.look([&](const BlockMap&, ContainerStorage& all) { found = all.take_containers(); });
    return found;
  };
  using Containers = std::vector<ContainerWords>;
  const uint64_t node = heap.block(40);
  const uint64_t other = heap.block(40);
  const uint64_t holder = heap.block(120);
  const uint64_t variable = ContainerHeap::kData.value() + 64;
  const auto put_list = [&](uint64_t at) {
    heap.put(at, {node, other, 2});
    heap.put(node, {other, at});
    heap.put(other, {at, node});
  };
  SUBCASE("in a block") {
    put_list(holder + 24);
    CHECK(containers() == Containers{{3, 3, {}, 2}});
    // Not what only looks like it.
    heap.put(other, {holder + 32});
    CHECK(containers().empty());
  }
  SUBCASE("outside") {
    put_list(variable);
    CHECK(containers() == Containers{{kNoBlock, 0, Address(variable), 2}});
  }
  SUBCASE("of a tree, behind its colour") {
    heap.put(variable, {0, node, node, other, 2});
    heap.put(node, {1, variable, 0, other, 7});
    heap.put(other, {0, node, 0, 0, 8});
    CHECK(containers() == Containers{{kNoBlock, 0, Address(variable + 8), 3}});
  }
  SUBCASE("of a hash table, behind its buckets") {
    const uint64_t buckets = heap.block(120);
    heap.put(buckets + 16, {variable + 16, node});
    heap.put(variable, {buckets, 13, node, 2, kOne, 13});
    heap.put(node, {other});
    CHECK(containers() == Containers{{kNoBlock, 0, Address(variable + 16), 1}});
  }
  SUBCASE("but of a single one, which may be a part of its block") {
    heap.put(variable, {node, node, 1});
    heap.put(node, {variable, variable});
    CHECK(heap.kind(node) == "std::list node");
    CHECK(containers().empty());
  }
  SUBCASE("unless nodes are not known, as some memory is in swap") {
    put_list(variable);
    heap.target.editable_process().swap = 4096;
    CHECK(containers().empty());
  }
}

TEST_CASE("the nodes of a tree know their parents") {
  ContainerHeap heap;
  const uint64_t root = heap.block(40);
  const uint64_t left = heap.block(40);
  const uint64_t right = heap.block(40);
  const uint64_t header = heap.block(56) + 8;  // behind what orders the elements
  heap.put(header, {0xabcd00000000, root, left, right, 3});
  heap.put(root, {1, header, left, right});
  heap.put(left, {0xabcd00000000, root, 0, 0});
  heap.put(right, {1, root, 0, 0});
  for (const uint64_t node : {root, left, right}) CHECK(heap.kind(node) == "std::map/set node");
  // What is written where, and each time nothing else is a tree.
  const std::vector<std::pair<uint64_t, uint64_t>> wrong = {
      {root + 8, header + 8},   // another parent of the root than the container
      {right + 8, left},        // a parent that it is no child of
      {left, 2},                // no colour
      {header + 32, 4},         // too few nodes
      {header + 32, 2},         // too many
      {header + 24, root},      // a last node with one after it
      {left + 16, root},        // round and round
      {left + 16, right + 16},  // into the midst of a block
  };
  for (const auto& one : wrong) {
    const auto [at, value] = one;
    const uint64_t offset = one.first - root;
    CAPTURE(offset);
    const uint64_t right_value = heap.target.word(Address(at));
    heap.put(at, {value});
    for (const uint64_t node : {root, left, right}) CHECK(heap.kind(node) == "");
    heap.put(at, {right_value});
  }
}

TEST_CASE("a hash table has as many buckets and nodes as it says") {
  ContainerHeap heap;
  const uint64_t buckets = heap.block(104);
  const uint64_t nodes[] = {heap.block(24), heap.block(24)};
  const uint64_t table = heap.block(72);
  heap.put(table, {buckets, 13, nodes[0], 2, kOne, 13});
  heap.put(nodes[0], {nodes[1]});
  CHECK(heap.kind(buckets) == "std::unordered_map/set buckets");
  CHECK(heap.kind(nodes[0]) == "std::unordered_map/set node");
  CHECK(heap.kind(nodes[1]) == "std::unordered_map/set node");
  SUBCASE("of buckets the block's room") {
    heap.put(table, {buckets, 5, nodes[0], 2, kOne, 5});
    CHECK(heap.kind(buckets) == "");
    CHECK(heap.kind(nodes[0]) == "");
  }
  SUBCASE("a load factor") {
    heap.put(table + 32, {0});
    CHECK(heap.kind(buckets) == "");
  }
  SUBCASE("and grows at their number") {
    heap.put(table + 40, {12});
    CHECK(heap.kind(buckets) == "");
  }
  SUBCASE("of nodes that many, in a chain") {
    heap.put(table + 24, {3});
    CHECK(heap.kind(nodes[0]) == "");
    heap.put(nodes[1], {nodes[0]});
    CHECK(heap.kind(nodes[0]) == "");
    CHECK(heap.kind(buckets) == "std::unordered_map/set buckets");
  }
}

// As those of any large table do.
TEST_CASE("nodes may lie anywhere, in chunks that are larger than others") {
  constexpr int kNodes = 600;
  ContainerHeap heap;
  const uint64_t buckets = heap.block(8 * kNodes + 8);
  std::vector<uint64_t> nodes;
  const auto add_nodes = [&] {
    for (int i = 0; i < kNodes / 2; ++i) nodes.push_back(heap.block(i == 7 ? 40 : 24));
  };
  add_nodes();
  for (int i = kNodes / 2; i < 1 << 17; ++i) heap.block(24);
  add_nodes();
  std::vector<uint64_t> chain;
  for (size_t i = 0; i < kNodes / 2; ++i) {
    chain.push_back(nodes[i]);
    chain.push_back(nodes[i + kNodes / 2]);
  }
  for (size_t i = 0; i + 1 < chain.size(); ++i) heap.put(chain[i], {chain[i + 1]});
  heap.put(heap.block(72), {buckets, kNodes, chain[0], kNodes, kOne, kNodes});
  for (const uint64_t node : {chain[0], chain[14], chain[kNodes - 1]}) {
    CHECK(heap.kind(node) == "std::unordered_map/set node");
  }
}

// Chains that go round and round end only because somebody counts; then no node is known, so that
// there are not some known and some not.
TEST_CASE("what is no container is not followed for ever") {
  constexpr uint64_t kBuckets = 1000;
  ContainerHeap heap;
  const uint64_t node = heap.block(24);
  const uint64_t list = heap.block(24);
  heap.put(list, {node, node, 1});
  heap.put(node, {list, list});
  const uint64_t ring = heap.block(24);
  heap.put(ring, {ring});
  const auto add_table = [&] {
    const uint64_t buckets = heap.block(8 * kBuckets + 8);
    heap.put(heap.block(56), {buckets, kBuckets, ring, kBuckets, kOne, kBuckets});
  };
  CHECK(heap.kind(node) == "std::list node");
  for (int i = 0; i < 5; ++i) add_table();
  CHECK(heap.kind(node) == "");
}
