// Nodes of which malloc gave 16 bytes more than of others: which of their words own is seen in the
// tree of owners.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analysis/owner_tree.h"
#include "analysis/stale_words.h"
#include "handmade_references.h"
#include "references/container_storage.h"

using namespace heapsnap;
using namespace heapsnap::test;

TEST_CASE("a list of the program's own goes on behind nodes that got more of malloc than others") {
  constexpr uint32_t kNodes = 200;
  constexpr uint64_t kNodeBytes = 200;
  HandmadeHeap heap;
  const uint32_t list = heap.add_place(RootKind::kVariable, "g_list");
  const uint32_t cursor = heap.add_place(RootKind::kVariable, "g_cursor");
  std::vector<BlockNumber> nodes;
  for (uint32_t i = 0; i < kNodes; ++i) {
    const bool is_larger = i + 1 == kNodes / 2 || i == kNodes / 2;
    nodes.push_back(heap.add(is_larger ? kNodeBytes + 16 : kNodeBytes));
    if (i != 0) heap.link(nodes[i - 1], 8, nodes[i]);
  }
  heap.hold(list, nodes.front());
  heap.hold(cursor, nodes[kNodes / 2 + 1]);
  const BlockNumber table = heap.add(504);
  heap.hold(heap.add_place(RootKind::kVariable, "g_buffers"), table);
  for (uint32_t i = 0; i < 40; ++i) heap.link(table, 8 * i, heap.add(kNodeBytes + 16));
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  for (const uint32_t row : tree.children[0]) {
    const OwnerNode& owner = tree.nodes[row];
    CHECK((owner.kind != OwnerNode::Kind::kPlace || owner.place != cursor));
  }
}

TEST_CASE("a node that got more of malloc than others owns nothing by what it does not know of") {
  for (const uint32_t nodes : {20U, 10U}) {
    CAPTURE(nodes);
    HandmadeHeap heap;
    const TypeNumber node =
        heap.add_type(to_string(StorageKind::kTreeNode), TypeSource::kStructure);
    const uint32_t cache = heap.add_place(RootKind::kVariable, "g_cache");
    const uint32_t index = heap.add_place(RootKind::kVariable, "g_index");
    const BlockNumber table = heap.add(1016);
    heap.hold(cache, table);
    const BlockNumber value = heap.add(56);
    heap.link(table, 0, value);
    BlockNumber parent = heap.add(72, node);
    heap.hold(index, parent);
    for (uint32_t i = 1; i < nodes; ++i) {
      const BlockNumber next = heap.add(i == 5 ? 88 : 72, node);
      heap.link(parent, 16, next);
      heap.link(next, 8, parent);
      if (i == 5) heap.link(next, 72, value);
      parent = next;
    }
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    CHECK(tree.children[0].size() == (nodes == 20 ? 2 : 3));  // of few, nothing is known
  }
}

TEST_CASE("what nodes hold is theirs, whatever smaller nodes other containers of the kind have") {
  HandmadeHeap heap;
  const TypeNumber node = heap.add_type(to_string(StorageKind::kTreeNode), TypeSource::kStructure);
  const uint32_t tables = heap.add_place(RootKind::kVariable, "g_tables");
  const uint32_t observers = heap.add_place(RootKind::kVariable, "g_observers");
  const uint32_t counts = heap.add_place(RootKind::kVariable, "g_counts");
  const auto add_nodes = [&](uint32_t place, uint32_t bytes, uint32_t nodes) {
    BlockNumber parent = heap.add(bytes, node);
    heap.hold(place, parent);
    std::vector<BlockNumber> added{parent};
    for (uint32_t i = 1; i < nodes; ++i) {
      const BlockNumber next = heap.add(bytes, node);
      heap.link(parent, 16, next);
      heap.link(next, 8, parent);
      added.push_back(parent = next);
    }
    return added;
  };
  add_nodes(counts, 72, 2000);
  const BlockNumber observer = heap.add(520);
  heap.hold(observers, observer);
  const std::vector<BlockNumber> rows = add_nodes(tables, 88, 10);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const BlockNumber table = heap.add(4104);
    heap.link(rows[i], 64, table);
    heap.link(observer, 8 * i, table);
  }
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  const OwnerNode& together = tree.nodes[tree.children[0][1]];
  CHECK(together.retained == Tally{10, 10 * 4104});
}
