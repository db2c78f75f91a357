#include "analysis/owner_tree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "handmade_references.h"
#include "references/container_storage.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

const OwnerNode& only_child(const OwnerTree& tree, const OwnerNode& node) {
  const auto& children = tree.children[static_cast<size_t>(&node - tree.nodes.data())];
  REQUIRE(children.size() == 1);
  return tree.nodes[children.front()];
}

}  // namespace

TEST_CASE("a table's elements are one node, and what each holds another") {
  HandmadeHeap heap;
  const TypeNumber session = heap.add_type("Session");
  const uint32_t cache = heap.add_place(RootKind::kVariable, "g_cache");
  const BlockNumber table = heap.add(1016);
  heap.hold(cache, table);
  for (uint32_t i = 0; i < 50; ++i) {
    const BlockNumber one = heap.add(40, session);
    const BlockNumber text = heap.add(24 + 16 * (i % 3));
    heap.link(table, 8 * i, one);
    heap.link(one, 0x18, text);
  }
  const BlockNumber leaked = heap.add(104);
  heap.link(leaked, 0, table);
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  CHECK(tree.leaked == Tally{1, 104});
  CHECK(tree.in_use.count == 102);
  const OwnerNode& root = only_child(tree, tree.nodes[0]);
  CHECK(root.kind == OwnerNode::Kind::kPlace);
  CHECK(root.place == cache);
  CHECK(root.own == Tally{});
  CHECK(root.retained.count == 101);
  CHECK(root.retained.bytes == tree.in_use.bytes - 104);
  const OwnerNode& array = only_child(tree, root);
  CHECK(array.own == Tally{1, 1016});
  CHECK(array.held_at == OwnerNode::kNotDirectly);
  const OwnerNode& sessions = only_child(tree, array);
  CHECK(sessions.type == session);
  CHECK(sessions.own == Tally{50, 2000});
  CHECK(sessions.held_at == OwnerNode::kElement);
  const OwnerNode& texts = only_child(tree, sessions);
  CHECK(texts.own.count == 50);
  CHECK(texts.held_at == 0x18);
  CHECK(!texts.has_references);
  CHECK(texts.least_size == 24);
  CHECK(texts.most_size == 56);
  // What leads to the table itself, the first line says.
  CHECK(tree.nodes[tree.examples.at(0).blocks].example_at == heap.address_of(table + 1));
}

TEST_CASE("a list and a tree are one node each, however deep") {
  HandmadeHeap heap;
  const uint32_t list = heap.add_place(RootKind::kVariable, "g_list");
  const uint32_t map = heap.add_place(RootKind::kVariable, "g_map");
  BlockNumber last = heap.add(24);
  heap.hold(list, last);
  for (int i = 1; i < 1000; ++i) {
    const BlockNumber next = heap.add(24);
    heap.link(last, 0, next);
    heap.link(next, 8, last);
    last = next;
  }
  const BlockNumber first = heap.add(40);
  heap.hold(map, first);
  for (BlockNumber i = 1; i < 500; ++i) {
    const BlockNumber next = heap.add(40);
    const BlockNumber parent = first + (i - 1) / 2;
    heap.link(parent, i % 2 == 1 ? 0x10 : 0x18, next);
    heap.link(next, 8, parent);
  }
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  REQUIRE(tree.children[0].size() == 2);
  CHECK(tree.nodes.size() == 5);
  const OwnerNode& list_node = tree.nodes[tree.children[0][0]];
  CHECK(list_node.place == list);
  CHECK(only_child(tree, list_node).own == Tally{1000, 24'000});
  CHECK(only_child(tree, tree.nodes[tree.children[0][1]]).own == Tally{500, 20'000});
}

TEST_CASE("what lies deeper than is told apart counts to the last node, which keeps its type") {
  HandmadeHeap heap;
  BlockNumber above = heap.add(40, heap.add_type("Level0"));
  heap.hold(heap.add_place(RootKind::kVariable, "g_levels"), above);
  constexpr int kLevels = 40;
  for (int i = 1; i < kLevels; ++i) {
    const BlockNumber next = heap.add(40, heap.add_type("Level" + std::to_string(i)));
    heap.link(above, 8, next);
    above = next;
  }
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  const OwnerNode& last = tree.nodes.back();
  CHECK(last.own.count > 1);
  CHECK(heap.streams.types.at(last.type).name.starts_with("Level"));
}

TEST_CASE("a word below the stack pointer takes nothing from a variable that leads to it") {
  HandmadeHeap heap;
  const uint32_t map = heap.add_place(RootKind::kVariable, "g_map");
  const uint32_t others = heap.add_place(RootKind::kVariable, "g_others");
  const uint32_t frame = heap.add_place(RootKind::kStack, "read", 7);
  // One header among many blocks of its size: what leads from it to the tree looks rare.
  const BlockNumber header = heap.add(56);
  const BlockNumber node = heap.add(40);
  const BlockNumber local = heap.add(104);
  heap.hold(map, header);
  heap.link(header, 0x10, node);
  for (int i = 0; i < 100; ++i) heap.hold(others, heap.add(56), 8 * static_cast<uint64_t>(i));
  heap.hold(frame, node, 0x28);
  heap.hold(frame, local, 0x80);
  const SnapshotStreams streams = heap.finish();
  Registers registers;
  registers.stack_pointer = heap.streams.places[frame].begin + 0x80;
  heap.snapshot.metadata.threads = {{7, "worker", registers}};
  const OwnerTree tree = make_owner_tree(streams, heap.streams);
  REQUIRE(tree.children[0].size() == 3);
  for (const uint32_t child : tree.children[0]) {
    const OwnerNode& root = tree.nodes[child];
    REQUIRE(root.kind == OwnerNode::Kind::kPlace);
    if (root.place == map) CHECK(root.retained == Tally{2, 96});
    if (root.place == frame) CHECK(root.retained == Tally{1, 104});
  }
}

TEST_CASE("what two variables share belongs to neither, and stacks only own the rest") {
  HandmadeHeap heap;
  const uint32_t a = heap.add_place(RootKind::kVariable, "a");
  const uint32_t b = heap.add_place(RootKind::kVariable, "b");
  const uint32_t frame = heap.add_place(RootKind::kStack, "main", 1);
  const uint32_t other_frame = heap.add_place(RootKind::kStack, "main", 1);
  const uint32_t rbx = heap.add_place(RootKind::kRegister, "rbx", 1);
  const BlockNumber of_a = heap.add(24);
  const BlockNumber of_b = heap.add(40);
  const BlockNumber shared = heap.add(104);
  const BlockNumber local = heap.add(56);
  const BlockNumber local_too = heap.add(72);
  heap.hold(a, of_a);
  heap.hold(b, of_b);
  heap.link(of_a, 0, shared);
  heap.link(of_b, 0, shared);
  heap.hold(frame, of_a);
  heap.hold(frame, local);
  heap.hold(other_frame, local_too);
  heap.hold(rbx, local);
  const SnapshotStreams streams = heap.finish();
  const OwnerTree tree = make_owner_tree(streams, heap.streams);
  REQUIRE(tree.children[0].size() == 4);
  const OwnerNode& main = tree.nodes[tree.children[0][0]];
  CHECK(main.place == frame);  // both frames of that name
  CHECK(main.retained == Tally{2, 128});
  const OwnerNode& several = tree.nodes[tree.children[0][1]];
  CHECK(several.kind == OwnerNode::Kind::kSeveral);
  CHECK(several.retained == Tally{1, 104});
  CHECK((tree.groups == decltype(tree.groups){{a, b}}));
  CHECK(tree.nodes[tree.children[0][2]].retained == Tally{1, 40});
  CHECK(tree.nodes[tree.children[0][3]].retained == Tally{1, 24});

  const OwnerTree by_type = make_owner_tree(streams, heap.streams, OwnerGrouping::kType);
  CHECK(by_type.nodes[0].retained == tree.nodes[0].retained);
  for (const uint32_t child : by_type.children[0]) {
    CHECK(by_type.nodes[child].kind == OwnerNode::Kind::kBlocks);
  }
}

TEST_CASE("what threads were started with is the variable's that leads to it") {
  HandmadeHeap heap;
  const uint32_t app = heap.add_place(RootKind::kVariable, "g_app");
  const uint32_t control =
      heap.add_place(RootKind::kThreadLocal, std::string(kControlBlockName), 7);
  const uint32_t own = heap.add_place(RootKind::kThreadLocal, "t_cache", 7);
  const uint32_t frame = heap.add_place(RootKind::kStack, "work", 7);
  const BlockNumber application = heap.add(24);
  const BlockNumber argument = heap.add(40);
  const BlockNumber specific = heap.add(104);
  heap.hold(app, application);
  heap.hold(control, argument);
  heap.link(argument, 8, application);
  heap.hold(control, specific, 16);
  heap.hold(frame, specific);
  heap.hold(own, application);
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  REQUIRE(tree.children[0].size() == 2);
  // Thread-specific data is its own, not a frame's.
  CHECK(tree.nodes[tree.children[0][0]].place == control);
  CHECK(tree.nodes[tree.children[0][0]].retained == Tally{2, 144});
  CHECK((tree.groups == decltype(tree.groups){{app, own}}));
}

TEST_CASE("other owners of a tenth of all have an example, too, and each node one of its blocks") {
  HandmadeHeap heap;
  std::vector<BlockNumber> blocks;
  for (const size_t size : {4000, 1000, 2000, 3000, 100}) {
    blocks.push_back(heap.add(size));
    heap.hold(heap.add_place(RootKind::kVariable, std::to_string(size)), blocks.back());
  }
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  REQUIRE(tree.examples.size() == OwnerTree::kMostExamples);
  const std::vector<size_t> largest = {0, 3, 2};
  for (size_t i = 0; i < largest.size(); ++i) {
    const auto& [owner, at] = tree.examples[i];
    CHECK(owner == tree.children[0][i]);
    CHECK(tree.nodes[at].example_at == heap.address_of(blocks[largest[i]]));
  }
  const uint32_t last = tree.children[tree.children[0].back()].front();
  CHECK(tree.nodes[last].example_at == heap.address_of(blocks.back()));
}

TEST_CASE("the example is of an owner that has its blocks alone, if one has enough of them") {
  for (const size_t alone : {0, 24, 600}) {
    HandmadeHeap heap;
    const BlockNumber shared = heap.add(1016);
    for (const char* const name : {"a", "b"}) {
      const uint32_t place = heap.add_place(RootKind::kVariable, name);
      heap.hold(place, shared);
    }
    BlockNumber wanted = shared;
    if (alone != 0) {
      const BlockNumber one = heap.add(alone);
      heap.hold(heap.add_place(RootKind::kVariable, "c"), one);
      if (alone > 1016 / 2) wanted = one;
    }
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    CHECK(tree.nodes[tree.children[0][0]].kind == OwnerNode::Kind::kSeveral);
    CHECK(tree.nodes[tree.examples.at(0).blocks].example_at == heap.address_of(wanted));
  }
}

TEST_CASE(
    "of the frames of a thread, the outermost owns, and a word past the first byte owns last") {
  HandmadeHeap heap;
  const uint32_t inner = heap.add_place(RootKind::kStack, "pause", 1);
  const uint32_t outer = heap.add_place(RootKind::kStack, "serve", 1);
  const uint32_t outermost = heap.add_place(RootKind::kStack, "main", 1);
  const BlockNumber batch = heap.add(1016);
  const BlockNumber text = heap.add(40);
  heap.link(batch, 0, text);
  heap.hold(inner, text);
  heap.hold(inner, batch);
  heap.hold(outer, batch);
  heap.roots.push_back({outermost, 0, batch, true});
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  const OwnerNode& owner = only_child(tree, tree.nodes[0]);
  CHECK(tree.places[owner.place].name == "serve");
  CHECK(owner.retained == Tally{2, 1056});
}

TEST_CASE(
    "a thread in the middle of an insert takes nothing from the variable that it inserts into") {
  HandmadeHeap heap;
  const uint32_t cache = heap.add_place(RootKind::kVariable, "g_cache");
  const uint32_t main = heap.add_place(RootKind::kStack, "main", 1);
  const uint32_t insert = heap.add_place(RootKind::kStack, "insert", 1);
  heap.streams.places[main].begin = heap.streams.places[insert].begin + 0x1000;
  const BlockNumber table = heap.add(1016);
  const BlockNumber first = heap.add(40);
  const BlockNumber second = heap.add(40);
  const BlockNumber fresh = heap.add(40);
  const BlockNumber batch = heap.add(104);
  const BlockNumber item = heap.add(56);
  heap.hold(cache, table);
  heap.link(table, 0, first);
  heap.link(first, 0, second);
  heap.link(fresh, 0, first);  // not linked yet: only insert() leads to it
  heap.link(fresh, 8, item);
  heap.hold(insert, fresh);
  heap.hold(main, batch);
  heap.link(batch, 0, item);
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  REQUIRE(tree.children[0].size() == 3);
  for (const uint32_t child : tree.children[0]) {
    const OwnerNode& root = tree.nodes[child];
    REQUIRE(root.kind == OwnerNode::Kind::kPlace);
    if (root.place == cache) CHECK(root.retained == Tally{3, 1016 + 2 * 40});
    if (root.place == main) CHECK(root.retained == Tally{2, 104 + 56});
    if (root.place == insert) CHECK(root.retained == Tally{1, 40});
  }
}

TEST_CASE("what an object of a runtime holds in a list is apart from what holds it in another") {
  HandmadeHeap heap;
  const auto type = [&](const char* name) {
    const TypeNumber number = heap.add_type(name);
    heap.streams.types[number].source = TypeSource::kRuntime;
    return number;
  };
  const TypeNumber bus = type("Bus");
  const TypeNumber list = type("list");
  const TypeNumber cart = type("Cart");
  const TypeNumber link = type("Link");
  const uint32_t place = heap.add_place(RootKind::kGlobal, "app.bus");
  const BlockNumber first = heap.add(40, bus);
  heap.hold(place, first);
  const BlockNumber subscribers = heap.add(1016, list);
  heap.link(first, 0, subscribers);
  for (uint32_t i = 0; i < 3; ++i) {
    const BlockNumber one = heap.add(56, cart);
    heap.link(subscribers, 8 * i, one);
    heap.link(one, 8, heap.add(88, list));
  }
  // A chain of objects of one class stays one node.
  BlockNumber last = heap.add(24, link);
  heap.link(first, 8, last);
  for (int i = 0; i < 9; ++i) {
    const BlockNumber next = heap.add(24, link);
    heap.link(last, 0, next);
    last = next;
  }
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  std::vector<std::pair<TypeNumber, uint64_t>> found;
  for (const OwnerNode& node : tree.nodes) {
    if (node.kind == OwnerNode::Kind::kBlocks) found.emplace_back(node.type, node.own.count);
  }
  std::sort(found.begin(), found.end());
  CHECK(found == decltype(found){{bus, 1}, {list, 1}, {list, 3}, {cart, 3}, {link, 10}});
}

TEST_CASE("nodes of the maps in a map's elements are not those of the map") {
  HandmadeHeap heap;
  const TypeNumber node = heap.add_type(to_string(StorageKind::kTreeNode), TypeSource::kStructure);
  const TypeNumber session = heap.add_type("Session");
  const uint32_t sessions = heap.add_place(RootKind::kVariable, "g_sessions");
  // Three nodes, of which the first holds the others, and a session in each with a map of its own.
  BlockNumber top = kNoBlock;
  for (uint32_t i = 0; i < 3; ++i) {
    const BlockNumber outer = heap.add(56, node);
    i == 0 ? heap.hold(sessions, outer) : heap.link(top, 8 + 8 * i, outer);
    if (i == 0) top = outer;
    const BlockNumber element = heap.add(104, session);
    heap.link(outer, 40, element);
    const BlockNumber inner = heap.add(72, node);
    heap.link(element, 64, inner);
    heap.link(inner, 16, heap.add(72, node));
  }
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  const OwnerNode& outer = only_child(tree, only_child(tree, tree.nodes[0]));
  CHECK(outer.own == Tally{3, 3 * 56});
  const OwnerNode& elements = only_child(tree, outer);
  CHECK(elements.type == session);
  CHECK(elements.own.count == 3);
  CHECK(only_child(tree, elements).own == Tally{6, 6 * 72});
}

TEST_CASE("in a file without symbols, words whose blocks hang together are one variable") {
  HandmadeHeap heap;
  const uint32_t data = heap.add_place(RootKind::kVariable, "");
  heap.streams.places[data].module_offset = 0x4000;
  // A map: its header points to the root, the leftmost and the rightmost node.
  const BlockNumber top = heap.add(72);
  const BlockNumber left = heap.add(72);
  const BlockNumber right = heap.add(72);
  for (const BlockNumber child : {left, right}) {
    heap.link(top, child == left ? 0x10 : 0x18, child);
    heap.link(child, 8, top);
  }
  heap.hold(data, top, 0x18);
  heap.hold(data, left, 0x20);
  heap.hold(data, right, 0x28);
  // A single pointer, an array of four, and far away a second pointer to what the first one holds.
  const BlockNumber single = heap.add(104);
  heap.hold(data, single, 0x48);
  for (uint32_t i = 0; i < 4; ++i) heap.hold(data, heap.add(24), 0x100 + 8 * i);
  const BlockNumber far = heap.add(200);
  const BlockNumber shared = heap.add(88);
  heap.hold(data, far, 0x1000);
  heap.link(far, 0, shared);
  heap.link(single, 0, shared);
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);

  // Offset in the module, bytes of its words, retained blocks.
  std::vector<std::array<uint64_t, 3>> found;
  for (const uint32_t child : tree.children[0]) {
    const OwnerNode& node = tree.nodes[child];
    const bool is_place = node.kind == OwnerNode::Kind::kPlace;
    const RootPlace place = is_place ? tree.places[node.place] : RootPlace{};
    found.push_back({place.module_offset, place.size, node.retained.count});
  }
  std::sort(found.begin(), found.end());
  const std::vector<std::array<uint64_t, 3>> expected = {
      {0, 0, 1}, {0x4018, 0x18, 3}, {0x4048, 8, 1}, {0x4100, 0x20, 4}, {0x5000, 8, 1}};
  CHECK(found == expected);
}

TEST_CASE("roots in places that are not there are refused") {
  HandmadeHeap heap;
  heap.add(24);
  heap.hold(3, 0);
  CHECK_THROWS_AS(make_owner_tree(heap.finish(), heap.streams), Error);
}
