// Whose nodes are is seen in the tree of owners.
#include "analysis/owned_nodes.h"

#include <doctest/doctest.h>

#include <vector>

#include "analysis/owner_tree.h"
#include "handmade_references.h"
#include "references/storage_kind.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr uint32_t kNodes = 300;
constexpr uint64_t kNodeBytes = 56;
constexpr uint32_t kOwnWords = 0x20;  // bytes of a variable before the list in it

// A list of which each node has a block of its own, and half of the nodes are in a table, too.
struct ListAndTable {
  HandmadeHeap heap;
  std::vector<BlockNumber> nodes;
  BlockNumber table = 0;
  uint32_t index = 0;  // the variable of the table

  explicit ListAndTable(bool is_list = true) {
    const TypeNumber type =
        heap.add_type(to_string(StorageKind::kListNode), TypeSource::kStructure);
    index = heap.add_place(RootKind::kVariable, "g_index");
    table = heap.add(4104);
    heap.hold(index, table);
    for (uint32_t i = 0; i < kNodes; ++i) {
      nodes.push_back(heap.add(kNodeBytes, is_list ? type : 0));
      heap.link(nodes[i], 16, heap.add(1000));
      if (i % 2 == 0) heap.link(table, 8 * i, nodes[i]);
      if (i == 0) continue;
      heap.link(nodes[i], 8, nodes[i - 1]);
      heap.link(nodes[i - 1], 0, nodes[i]);
    }
  }
  // The words of the list in a place.
  void hold(uint32_t place) {
    heap.hold(place, nodes.front(), kOwnWords);
    heap.hold(place, nodes.back(), kOwnWords + 8);
    const Address at = heap.streams.places[place].begin + kOwnWords;
    heap.streams.containers.push_back({kNoBlock, 0, at, 2});
  }
  OwnerTree owners() { return make_owner_tree(heap.finish(), heap.streams); }
};

// Of the first row.
const OwnerNode& largest(const OwnerTree& tree) {
  return tree.nodes[tree.children[0][0]];
}
const std::string& name_of(const OwnerTree& tree, const OwnerNode& node) {
  return tree.places[node.place].name;
}

}  // namespace

TEST_CASE("a container owns its nodes, whatever else leads to them") {
  ListAndTable all;
  const uint32_t list = all.heap.add_place(RootKind::kVariable, "g_list");
  all.hold(list);
  SUBCASE("from a block") {}
  SUBCASE("from a variable") {
    all.heap.hold(all.index, all.nodes[10], 8);
  }
  SUBCASE("from registers") {
    all.heap.hold(all.heap.add_place(RootKind::kRegister, "rbx", 1), all.nodes[10]);
  }
  const OwnerTree tree = all.owners();
  CHECK(name_of(tree, largest(tree)) == "g_list");
  CHECK(largest(tree).kind == OwnerNode::Kind::kPlace);
  CHECK(largest(tree).retained == Tally{2 * kNodes, kNodes * (kNodeBytes + 1000)});
  REQUIRE(tree.children[0].size() == 2);
  CHECK(tree.nodes[tree.children[0][1]].retained == Tally{1, 4104});
}

TEST_CASE("what may be the list itself is no node, whatever its type says") {
  ListAndTable all;
  const uint32_t list = all.heap.add_place(RootKind::kVariable, "g_list");
  all.hold(list);
  // Nothing tells the last node from a list of the others, as an element of it is their number.
  all.heap.streams.containers.insert(all.heap.streams.containers.begin(),
                                     {all.nodes.back(), 0, {}, 2});
  all.heap.hold(all.index, all.nodes.back(), 8);
  const OwnerTree tree = all.owners();
  CHECK(largest(tree).kind != OwnerNode::Kind::kPlace);  // together
  CHECK(largest(tree).retained.count >= 2 * kNodes);
}

TEST_CASE("a ring to which nothing leads as to a list belongs to whoever leads to a node of it") {
  ListAndTable all;
  // Of a ring of C, 1, 2, 3 ..., the node whose number is that of the others looks like the list.
  all.heap.link(all.nodes.back(), 0, all.nodes.front());
  all.heap.link(all.nodes.front(), 8, all.nodes.back());
  all.heap.streams.containers.push_back({all.nodes.back(), 0, {}, 2});
  all.heap.hold(all.heap.add_place(RootKind::kVariable, "g_ring"), all.nodes[7]);
  const OwnerTree tree = all.owners();
  CHECK(largest(tree).kind != OwnerNode::Kind::kPlace);  // with g_index, whose table leads there
  CHECK(largest(tree).retained.count >= 2 * kNodes);
}

TEST_CASE("a function's container owns its nodes before what lasts longer") {
  ListAndTable all;
  all.hold(all.heap.add_place(RootKind::kStack, "main", 1));
  const OwnerTree tree = all.owners();
  CHECK(name_of(tree, largest(tree)) == "main");
  CHECK(largest(tree).retained.count == 2 * kNodes);
}

TEST_CASE("a container in a block owns its nodes, and is its block's owner's") {
  ListAndTable all;
  const BlockNumber server = all.heap.add(104);
  all.heap.link(server, 40, all.nodes.front());
  all.heap.link(server, 48, all.nodes.back());
  all.heap.streams.containers.push_back({server, 5, {}, 2});
  const uint32_t variable = all.heap.add_place(RootKind::kVariable, "g_server");
  all.heap.hold(variable, server);
  const OwnerTree tree = all.owners();
  CHECK(name_of(tree, largest(tree)) == "g_server");
  CHECK(largest(tree).retained.count == 2 * kNodes + 1);
}

TEST_CASE("a container owns its nodes though only the middle of its block is led to") {
  ListAndTable all;
  const BlockNumber server = all.heap.add(104);
  all.heap.link(server, 40, all.nodes.front());
  all.heap.link(server, 48, all.nodes.back());
  all.heap.streams.containers.push_back({server, 5, {}, 2});
  const BlockNumber outer = all.heap.add(56);
  all.heap.link(outer, 8, server, true);
  all.heap.hold(all.heap.add_place(RootKind::kVariable, "g_outer"), outer);
  const OwnerTree tree = all.owners();
  CHECK(name_of(tree, largest(tree)) == "g_outer");
  CHECK(largest(tree).retained.count == 2 * kNodes + 2);
}

TEST_CASE("a function's container owns its nodes, too, where a language runtime names variables") {
  ListAndTable all;
  all.hold(all.heap.add_place(RootKind::kStack, "main", 1));
  all.heap.hold(all.heap.add_place(RootKind::kGlobal, "app.CACHE"), all.heap.add(56));
  const OwnerTree tree = all.owners();
  CHECK(name_of(tree, largest(tree)) == "main");
  CHECK(largest(tree).retained.count == 2 * kNodes);
}

TEST_CASE("of a container that nothing leads to, an iterator owns the nodes") {
  ListAndTable all;
  // It comes after the iterator, as elsewhere.
  all.heap.hold(all.heap.add_place(RootKind::kRegister, "rbx", 1), all.nodes[10]);
  const BlockNumber lost = all.heap.add(104);
  all.heap.link(lost, 40, all.nodes.front());
  all.heap.link(lost, 48, all.nodes.back());
  all.heap.streams.containers.push_back({lost, 5, {}, 2});
  const OwnerTree tree = all.owners();
  CHECK(name_of(tree, largest(tree)) == "g_index");
  CHECK(largest(tree).retained.count == 2 * kNodes + 1);
}

TEST_CASE("words of containers say only how many they are, and where") {
  for (const ContainerWords& words : {ContainerWords{kNoBlock, 0, Address(0x400120), 1},
                                      ContainerWords{kNoBlock, 0, Address(0x400120), UINT32_MAX},
                                      ContainerWords{kNoBlock, 0, Address(UINT64_MAX - 7), 9},
                                      ContainerWords{BlockNumber{1} << 30, 5, {}, 9},
                                      ContainerWords{0, UINT32_MAX, {}, UINT32_MAX}}) {
    ListAndTable all;
    all.hold(all.heap.add_place(RootKind::kVariable, "g_list"));
    all.heap.streams.containers = {words};
    const bool has_list = words.at == Address(0x400120);
    const OwnerTree tree = all.owners();
    CHECK(largest(tree).kind == (has_list ? OwnerNode::Kind::kPlace : OwnerNode::Kind::kSeveral));
  }
}

TEST_CASE("where no container is known, all own that lead to a block") {
  for (const bool is_list : {false, true}) {
    ListAndTable all(is_list);
    all.hold(all.heap.add_place(RootKind::kVariable, "g_list"));
    if (is_list) all.heap.streams.containers.clear();
    const OwnerTree tree = all.owners();
    CHECK(largest(tree).kind == OwnerNode::Kind::kSeveral);
    CHECK(largest(tree).retained.count == 2 * kNodes);
  }
}

TEST_CASE("buckets lead to the nodes of a hash table, and its words to the first one") {
  HandmadeHeap heap;
  const TypeNumber node_type =
      heap.add_type(to_string(StorageKind::kHashNode), TypeSource::kStructure);
  const TypeNumber buckets_type =
      heap.add_type(to_string(StorageKind::kHashBuckets), TypeSource::kStructure);
  const uint32_t map = heap.add_place(RootKind::kVariable, "g_map");
  const uint32_t other = heap.add_place(RootKind::kVariable, "g_other");
  const BlockNumber buckets = heap.add(2408, buckets_type);
  const BlockNumber left_over = heap.add(2408);
  heap.hold(map, buckets, 0);
  heap.hold(other, left_over);
  BlockNumber last = kNoBlock;
  for (uint32_t i = 0; i < kNodes; ++i) {
    const BlockNumber node = heap.add(kNodeBytes, node_type);
    if (i == 0) {
      heap.hold(map, node, 16);
    } else {
      heap.link(last, 0, node);
    }
    // The first node's own bucket leads to the table.
    if (i != 0) heap.link(buckets, 8 * i, node);
    heap.link(left_over, 8 * i, node);
    last = node;
  }
  heap.streams.containers = {{kNoBlock, 0, heap.streams.places[map].begin + 16, 1}};
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  CHECK(name_of(tree, largest(tree)) == "g_map");
  CHECK(largest(tree).retained.count == kNodes + 1);
}
