// Which words own is seen in the tree of owners.
#include "analysis/stale_words.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analysis/owner_tree.h"
#include "handmade_references.h"
#include "references/container_storage.h"

using namespace heapsnap;
using namespace heapsnap::test;

TEST_CASE("a word that is left from before does not take a container from its owner") {
  for (const bool is_stale_everywhere : {false, true}) {
    HandmadeHeap heap;
    const uint32_t matrix = heap.add_place(RootKind::kVariable, "g_matrix");
    const uint32_t buffers = heap.add_place(RootKind::kVariable, "g_buffers");
    const BlockNumber rows = heap.add(1016);
    heap.hold(matrix, rows);
    for (uint32_t i = 0; i < 20; ++i) heap.link(rows, 8 * i, heap.add(4008));
    const BlockNumber table = heap.add(2040);
    heap.hold(buffers, table);
    for (uint32_t i = 0; i < 100; ++i) {
      const BlockNumber buffer = heap.add(88);
      heap.link(table, 8 * i, buffer);
      if (i == 7 || is_stale_everywhere) heap.link(buffer, 0x20, rows);
    }
    const BlockNumber only_here = heap.add(24);
    heap.link(table + 1 + 50, 0x30, only_here);  // rare, and its only owner
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    const OwnerNode& first = tree.nodes[tree.children[0][0]];
    CHECK(first.retained.count == 21);
    CHECK(first.retained.bytes == 1016 + 20 * 4008);
    // A word that all of them hold is a member of theirs.
    CHECK(first.kind ==
          (is_stale_everywhere ? OwnerNode::Kind::kSeveral : OwnerNode::Kind::kPlace));
    const OwnerNode& second = tree.nodes[tree.children[0][1]];
    CHECK(second.place == buffers);
    CHECK(second.retained.count == 102);
    CHECK(tree.leaked == Tally{});
  }
}

TEST_CASE("a pointer that debug information declares owns, however few objects have one") {
  for (const bool is_declared : {false, true}) {
    CAPTURE(is_declared);
    HandmadeHeap heap;
    const TypeNumber connection = heap.add_type("Connection");
    if (is_declared) heap.streams.types[connection].pointers = 1 << 1;
    const uint32_t connections = heap.add_place(RootKind::kVariable, "g_connections");
    const uint32_t recent = heap.add_place(RootKind::kVariable, "g_recent");
    const BlockNumber table = heap.add(808);
    heap.hold(connections, table);
    const BlockNumber upload = heap.add(5000);
    for (uint32_t i = 0; i < 100; ++i) {
      const BlockNumber one = heap.add(40, connection);
      heap.link(table, 8 * i, one);
      if (i == 7) heap.link(one, 8, upload);
    }
    heap.hold(recent, upload);
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    const OwnerNode& first = tree.nodes[tree.children[0][0]];
    CHECK(first.retained == Tally{1, 5000});
    CHECK(first.kind == (is_declared ? OwnerNode::Kind::kSeveral : OwnerNode::Kind::kPlace));
  }
}

TEST_CASE("what malloc gave an object beyond its size owns nothing that something else owns") {
  struct Case {
    uint64_t bytes;  // of an object, by debug information
    int objects;
    int holding;    // of these, how many hold the address
    bool is_known;  // that the word is none of its own
  };
  for (const Case each : {Case{0, 16, 3, false}, Case{32, 16, 3, true}, Case{32, 16, 4, false},
                          Case{32, 15, 3, false}, Case{33, 16, 3, false}, Case{8, 16, 3, false}}) {
    CAPTURE(each.bytes);
    CAPTURE(each.objects);
    CAPTURE(each.holding);
    HandmadeHeap heap;
    const TypeNumber order = heap.add_type("Order", TypeSource::kDebugInfo);
    heap.streams.types[order].bytes = each.bytes;
    const BlockNumber upload = heap.add(5000);
    const uint32_t orders = heap.add_place(RootKind::kVariable, "g_orders");
    for (int i = 0; i < each.objects; ++i) {
      const BlockNumber one = heap.add(40, order);
      heap.hold(orders, one, 8 * i);
      if (i < each.holding) heap.link(one, 32, upload);
    }
    heap.hold(heap.add_place(RootKind::kVariable, "g_upload"), upload);
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    const OwnerNode& first = tree.nodes[tree.children[0][0]];
    CHECK(first.retained == Tally{1, 5000});
    CHECK(first.kind == (each.is_known ? OwnerNode::Kind::kPlace : OwnerNode::Kind::kSeveral));
  }
}

TEST_CASE("an object that is destroyed owns nothing that something else owns") {
  for (const bool is_destroyed : {false, true}) {
    CAPTURE(is_destroyed);
    HandmadeHeap heap;
    const TypeNumber shared = heap.add_type("std::_Sp_counted_ptr_inplace<Look>");
    const BlockNumber look = heap.add(40, shared);
    const BlockNumber note = heap.add(5000);
    heap.hold(heap.add_place(RootKind::kVariable, "g_looks"), look);
    heap.hold(heap.add_place(RootKind::kVariable, "g_notes"), note);
    heap.link(look, 16, note);
    if (is_destroyed) heap.streams.slack_words = {SlackWords::all_of(look)};
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    const OwnerNode& first = tree.nodes[tree.children[0][0]];
    CHECK(first.retained == Tally{1, 5000});
    CHECK(first.kind == (is_destroyed ? OwnerNode::Kind::kPlace : OwnerNode::Kind::kSeveral));
  }
}

TEST_CASE(
    "a container in a block of its own owns its nodes, whatever else has blocks of that size") {
  for (const uint32_t others : {0U, 100U}) {
    CAPTURE(others);
    HandmadeHeap heap;
    const TypeNumber node =
        heap.add_type(to_string(StorageKind::kTreeNode), TypeSource::kStructure);
    const uint32_t names = heap.add_place(RootKind::kVariable, "g_names");
    const uint32_t frame = heap.add_place(RootKind::kStack, "start", 7);
    const BlockNumber set = heap.add(56);
    heap.hold(names, set);
    const BlockNumber root = heap.add(72, node);
    const BlockNumber left = heap.add(72, node);
    heap.link(set, 16, root);
    heap.link(set, 24, left);
    heap.link(root, 8, set, true);
    heap.link(root, 16, left);
    heap.link(left, 8, root);
    // What a frame has left, and characters of the set's size.
    heap.hold(frame, left, 0x40);
    const uint32_t texts = heap.add_place(RootKind::kVariable, "g_texts");
    for (uint32_t i = 0; i < others; ++i) heap.hold(texts, heap.add(56), 8 * uint64_t{i});
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    const auto owner = std::find_if(tree.nodes.begin(), tree.nodes.end(), [&](const auto& each) {
      return each.kind == OwnerNode::Kind::kPlace && each.place == names;
    });
    REQUIRE(owner != tree.nodes.end());
    CHECK(owner->retained == Tally{3, 56 + 2 * 72});
  }
}

TEST_CASE("texts and objects of other types that have its size do not make a member stale") {
  for (const bool is_typed : {false, true}) {
    CAPTURE(is_typed);
    HandmadeHeap heap;
    const TypeNumber text = heap.add_type(to_string(StorageKind::kText), TypeSource::kStructure);
    const TypeNumber request = heap.add_type("Request");
    const TypeNumber server_type = heap.add_type("Server");
    const uint32_t place = heap.add_place(RootKind::kVariable, "g_server");
    const uint32_t frame = heap.add_place(RootKind::kStack, "serve", 7);
    const BlockNumber server = heap.add(40, is_typed ? server_type : 0);
    const BlockNumber cache = heap.add(1016);
    heap.hold(place, server);
    heap.link(server, 0x20, cache);
    heap.hold(frame, cache);
    for (uint32_t i = 0; i < 100; ++i) {
      heap.link(cache, 8 * i, heap.add(40, i % 2 == 0 ? text : request));
    }
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    const OwnerNode& first = tree.nodes[tree.children[0][0]];
    CHECK(first.place == place);
    CHECK(first.retained == Tally{102, 101 * 40 + 1016});
  }
}

TEST_CASE("a block without a type is compared with all of its size") {
  // Of 100 vectors' storage a tenth has no type and is left over from a table of pages.
  HandmadeHeap heap;
  const TypeNumber storage = heap.add_type(to_string(StorageKind::kArray), TypeSource::kStructure);
  const uint32_t index = heap.add_place(RootKind::kVariable, "g_index");
  const uint32_t pages = heap.add_place(RootKind::kVariable, "g_pages");
  const BlockNumber table = heap.add(1016);
  const BlockNumber page = heap.add(4008);
  heap.hold(index, table);
  heap.hold(pages, page);
  for (uint32_t i = 0; i < 100; ++i) {
    const BlockNumber one = heap.add(88, i % 10 == 0 ? 0 : storage);
    heap.link(table, 8 * i, one);
    if (i % 10 == 0) heap.link(one, 80, page);
  }
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  const OwnerNode& second = tree.nodes[tree.children[0][1]];
  CHECK(second.place == pages);
  CHECK(second.retained == Tally{1, 4008});
}

TEST_CASE("what the nodes of a hash map belong to does not depend on what else is of their size") {
  const std::pair<std::string, TypeSource> types[] = {
      {to_string(StorageKind::kHashNode), TypeSource::kStructure},
      {"std::__detail::_Hash_node<std::pair<long const, Visit>, false>", TypeSource::kDebugInfo}};
  for (const auto& type : types) {
    const std::string& name = type.first;
    // Without others of their size, with some, and with so many that what leads from node to node
    // is a rare word among them.
    for (const uint32_t others : {0U, 100U, 2000U}) {
      CAPTURE(name);
      CAPTURE(others);
      HandmadeHeap heap;
      const TypeNumber node = heap.add_type(name, type.second);
      const uint32_t visits = heap.add_place(RootKind::kVariable, "g_visits");
      const BlockNumber buckets = heap.add(1016);
      heap.hold(visits, buckets);
      for (uint32_t i = 0; i < 100; ++i) {
        const BlockNumber added = heap.add(40, node);
        if (i == 0) {
          heap.hold(visits, added, 0x10);
        } else {
          heap.link(buckets, 8 * i, added - 1);
          heap.link(added - 1, 0, added);
        }
      }
      const uint32_t buffers = heap.add_place(RootKind::kVariable, "g_buffers");
      for (uint32_t i = 0; i < others; ++i) heap.hold(buffers, heap.add(40), 8 * uint64_t{i});
      const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
      const auto owner = std::find_if(tree.nodes.begin(), tree.nodes.end(), [&](const auto& each) {
        return each.kind == OwnerNode::Kind::kPlace && each.place == visits;
      });
      REQUIRE(owner != tree.nodes.end());
      CHECK(owner->retained == Tally{101, 1016 + 100 * 40});
      const auto& held = tree.children[static_cast<size_t>(owner - tree.nodes.begin())];
      REQUIRE(held.size() == 2);  // beside each other, whatever there is
      CHECK(tree.nodes[held[0]].own == Tally{100, 100 * 40});
      CHECK(tree.nodes[held[1]].retained == Tally{1, 1016});
    }
  }
}

TEST_CASE(
    "what malloc gave beyond what a container asked for owns nothing that something else owns") {
  for (const bool is_slack : {false, true}) {
    CAPTURE(is_slack);
    HandmadeHeap heap;
    const uint32_t cache = heap.add_place(RootKind::kVariable, "g_cache");
    const uint32_t rows = heap.add_place(RootKind::kVariable, "g_rows");
    const BlockNumber table = heap.add(2056);
    heap.hold(cache, table);
    const BlockNumber row = heap.add(2056);
    heap.hold(rows, row);
    for (uint32_t i = 0; i < 200; ++i) {
      const BlockNumber node = heap.add(104);
      heap.link(table, 8 * i, node);
      heap.link(row, 8 * (50 + i), node);
    }
    if (is_slack) heap.streams.slack_words = {{row, 50}};
    const BlockNumber only_here = heap.add(24);
    heap.link(row, 2048, only_here);
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    const OwnerNode& first = tree.nodes[tree.children[0][0]];
    CHECK(first.retained.bytes == (is_slack ? 2056 + 200 * 104 : 200 * 104));
    if (!is_slack) continue;
    REQUIRE(tree.children[0].size() == 2);
    CHECK(tree.nodes[tree.children[0][1]].retained.bytes == 2056 + 24);
  }
}

TEST_CASE("an element of a vector owns, however few vectors of that size hold an address there") {
  for (const bool is_vector : {false, true}) {
    HandmadeHeap heap;
    const TypeNumber type =
        is_vector ? heap.add_type(to_string(StorageKind::kArray), TypeSource::kStructure) : 0;
    const uint32_t table = heap.add_place(RootKind::kVariable, "g_table");
    const uint32_t rows = heap.add_place(RootKind::kVariable, "g_rows");
    const BlockNumber all = heap.add(1032);
    heap.hold(rows, all);
    for (uint32_t i = 0; i < 100; ++i) heap.link(all, 8 * i, heap.add(72, type));
    const BlockNumber shared = heap.add(4008);
    heap.hold(table, shared);
    heap.link(all + 1, 16, shared);
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    const OwnerNode& second = tree.nodes[tree.children[0][1]];
    CHECK(second.retained == Tally{1, 4008});
    CHECK(second.kind == (is_vector ? OwnerNode::Kind::kSeveral : OwnerNode::Kind::kPlace));
  }
}

TEST_CASE("what lies behind the last element of a vector owns only what nothing else owns") {
  HandmadeHeap heap;
  const uint32_t cache = heap.add_place(RootKind::kVariable, "g_cache");
  const uint32_t lines = heap.add_place(RootKind::kVariable, "g_lines");
  const BlockNumber storage = heap.add(4104);
  heap.hold(lines, storage);
  constexpr uint32_t kLines = 100;
  for (uint32_t i = 0; i < kLines; ++i) heap.link(storage, 8 * i, heap.add(56));
  // The places of texts that were freed are those of nodes now.
  BlockNumber last = heap.add(56);
  heap.hold(cache, last);
  constexpr uint32_t kNodes = 300;
  for (uint32_t i = 1; i < kNodes; ++i) {
    const BlockNumber node = heap.add(56);
    heap.link(last, 0, node);
    heap.link(storage, 8 * (kLines + i), node);
    last = node;
  }
  // If it is no vector's, what is there may be in use.
  const BlockNumber only_there = heap.add(72);
  heap.link(storage, 8 * (kLines + kNodes), only_there);
  heap.streams.slack_words = {{storage, 512, 0, 512 - kLines}};
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  REQUIRE(tree.children[0].size() == 2);
  CHECK(tree.nodes[tree.children[0][0]].retained.bytes == kNodes * 56);
  CHECK(tree.nodes[tree.children[0][1]].retained.bytes == 4104 + kLines * 56 + 72);
}

TEST_CASE("what a string does not use of its buffer owns nothing that something else owns") {
  // Of a block without a type, of strings in a row, and of an object that has a pointer there.
  enum class Kind { kUnknown, kArray, kObject };
  struct Case {
    Kind kind;
    bool is_unused;
  };
  for (const Case each :
       {Case{Kind::kUnknown, false}, Case{Kind::kUnknown, true}, Case{Kind::kArray, false},
        Case{Kind::kArray, true}, Case{Kind::kObject, true}}) {
    const auto [kind, is_unused] = each;
    CAPTURE(static_cast<int>(each.kind));
    CAPTURE(each.is_unused);
    HandmadeHeap heap;
    const TypeNumber known =
        heap.add_type(kind == Kind::kArray ? "std::string[]" : "Entry", TypeSource::kDebugInfo);
    heap.streams.types[known].pointers = kind == Kind::kArray ? ~uint64_t{0} : 1 << 9;
    const TypeNumber type = kind == Kind::kUnknown ? 0 : known;
    const uint32_t cache = heap.add_place(RootKind::kVariable, "g_cache");
    const uint32_t index = heap.add_place(RootKind::kVariable, "g_index");
    BlockNumber last = 0;
    for (uint32_t i = 0; i < 200; ++i) {
      const BlockNumber entry = heap.add(88, type);
      const BlockNumber node = heap.add(72);
      if (i == 0) {
        heap.hold(cache, entry);
        heap.hold(index, node);
      } else {
        heap.link(last, 0, entry);
        heap.link(last + 1, 0, node);
      }
      heap.link(entry, 72, node);
      if (is_unused) heap.streams.unused_words.push_back({entry, 9});
      last = entry;
    }
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    REQUIRE(tree.children[0].size() == 2);
    CHECK(tree.nodes[tree.children[0][0]].retained.bytes == 200 * 88);
    const OwnerNode& second = tree.nodes[tree.children[0][1]];
    CHECK(second.retained.bytes == 200 * 72);
    const bool is_alone = is_unused && kind != Kind::kObject;
    CHECK(second.kind == (is_alone ? OwnerNode::Kind::kPlace : OwnerNode::Kind::kSeveral));
  }
}

TEST_CASE("what a deque does not use of its map owns nothing that something else owns") {
  HandmadeHeap heap;
  const uint32_t pages = heap.add_place(RootKind::kVariable, "g_pages");
  const uint32_t queue = heap.add_place(RootKind::kVariable, "g_queue");
  const BlockNumber map = heap.add(1016);
  heap.hold(queue, map);
  BlockNumber page = heap.add(504);
  heap.hold(pages, page);
  for (uint32_t i = 0; i < 100; ++i) {
    const BlockNumber next = heap.add(504);
    heap.link(page, 0, next);
    page = next;
    if (i != 50) heap.link(map, 8 * i, page);
  }
  const BlockNumber buffer = heap.add(520);
  heap.link(map, 8 * 50, buffer);
  heap.streams.slack_words = {{map, 51, 50}};
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  CHECK(tree.nodes[tree.children[0][0]].retained.bytes == 101 * 504);
  CHECK(tree.nodes[tree.children[0][1]].retained.bytes == 1016 + 520);
}

TEST_CASE("a link behind an array that three pointers lead into is no slack") {
  HandmadeHeap heap;
  const uint32_t head = heap.add_place(RootKind::kVariable, "head");
  const uint32_t tail = heap.add_place(RootKind::kVariable, "tail");
  constexpr uint32_t kNodes = 40;
  std::vector<BlockNumber> nodes;
  for (uint32_t i = 0; i < kNodes; ++i) nodes.push_back(heap.add(4072));
  for (uint32_t i = 0; i < kNodes; ++i) {
    if (i > 0) heap.link(nodes[i], 8 * 507, nodes[i - 1]);
    if (i + 1 < kNodes) heap.link(nodes[i], 8 * 508, nodes[i + 1]);
  }
  heap.hold(head, nodes.front());
  heap.hold(tail, nodes.back());
  heap.streams.slack_words = {{nodes.front(), 507}};
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  REQUIRE(tree.children[0].size() == 1);
  CHECK(tree.nodes[tree.children[0][0]].retained == Tally{kNodes, kNodes * uint64_t{4072}});
}

TEST_CASE("what lies behind the end of a text owns nothing that something else owns") {
  const std::string characters = to_string(StorageKind::kText);
  for (const BlockType& type : {BlockType{characters, "", TypeSource::kStructure},
                                BlockType{characters, "", TypeSource::kDebugInfo},
                                BlockType{"char[]", "", TypeSource::kDebugInfo},
                                BlockType{"short int[]", "", TypeSource::kDebugInfo}}) {
    CAPTURE(type.name);
    HandmadeHeap heap;
    const TypeNumber text = heap.add_type(type.name, type.source);
    const uint32_t cache = heap.add_place(RootKind::kVariable, "g_cache");
    const uint32_t names = heap.add_place(RootKind::kVariable, "g_names");
    const BlockNumber table = heap.add(1016);
    heap.hold(cache, table);
    const BlockNumber name_table = heap.add(520);
    heap.hold(names, name_table);
    for (uint32_t i = 0; i < 50; ++i) {
      const BlockNumber node = heap.add(104);
      heap.link(table, 8 * i, node);
      const BlockNumber name = heap.add(56, text);
      heap.link(name_table, 8 * i, name);
      heap.link(name, 48, node);
    }
    const BlockNumber only_here = heap.add(24);
    heap.link(name_table + 2, 40, only_here);  // nothing else leads to it: then it does
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    REQUIRE(tree.children[0].size() == 2);
    const OwnerNode& first = tree.nodes[tree.children[0][0]];
    CHECK(first.place == cache);
    CHECK(first.retained == Tally{51, 1016 + 50 * 104});
    CHECK(tree.nodes[tree.children[0][1]].retained == Tally{52, 520 + 50 * 56 + 24});
    CHECK(tree.leaked == Tally{});
  }
}
