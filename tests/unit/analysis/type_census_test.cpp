#include "analysis/type_census.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "analysis/reachability.h"
#include "base/error.h"
#include "handmade_references.h"
#include "random_graph.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

using Holder = BlockContext::Holder;

const TypeRow& row_of(const TypeCensus& census, TypeNumber type) {
  const auto row = std::find_if(census.types.begin(), census.types.end(),
                                [type](const TypeRow& one) { return one.type == type; });
  REQUIRE(row != census.types.end());
  return *row;
}

const TypeRow* row_of(const TypeCensus& census, const BlockContext& context) {
  const auto row = std::find_if(census.unknown.begin(), census.unknown.end(),
                                [&context](const TypeRow& one) { return one.context == context; });
  return row == census.unknown.end() ? nullptr : &*row;
}

Tally sum_of(const std::vector<TypeRow>& rows) {
  Tally sum;
  for (const TypeRow& row : rows) sum += row.own;
  return sum;
}

}  // namespace

TEST_CASE("what nothing else leads to is found by few blocks") {
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    const Edges edges = random_edges(random, 24);
    const ReferenceGraph graph = graph_of(edges);
    std::vector<BlockNumber> roots;
    if (random() % 3 != 0) roots.push_back(random() % edges.size());
    const BlockSet known = reachable_blocks(graph, roots);
    BlockSet preferred(graph.blocks());
    for (BlockNumber block = 0; block < edges.size(); ++block) {
      if (random() % 4 == 0) preferred.insert(block);
    }
    std::vector<BlockNumber> sources = sources_of_rest(graph, known, {&preferred, 1});
    // They lead to all of the rest ...
    std::vector<BlockNumber> starts = sources;
    starts.insert(starts.end(), roots.begin(), roots.end());
    const std::vector<bool> all = reached(edges, starts);
    REQUIRE(std::count(all.begin(), all.end(), false) == 0);
    // ... and nothing but what they lead to themselves leads to one of them.
    for (const BlockNumber source : sources) {
      REQUIRE(!known.contains(source));
      const std::vector<bool> below = reached(edges, {source});
      for (BlockNumber block = 0; block < edges.size(); ++block) {
        if (below[block] && reached(edges, {block})[source]) {
          // One of the same cycle is not preferred to it.
          REQUIRE(preferred.contains(block) <= preferred.contains(source));
        }
        if (below[block]) continue;
        REQUIRE(std::count(edges[block].begin(), edges[block].end(), source) == 0);
      }
    }
  }
}

TEST_CASE("blocks of unknown type are what a type holds at a place") {
  HandmadeHeap heap;
  const TypeNumber session = heap.add_type("Session");
  const uint32_t cache = heap.add_place(RootKind::kVariable, "g_cache");
  const BlockNumber table = heap.add(1016);
  heap.hold(cache, table);
  for (uint32_t i = 0; i < 50; ++i) {
    const BlockNumber one = heap.add(40, session);
    heap.link(table, 8 * i, one);
    heap.link(one, 0x18, heap.add(24 + 16 * (i % 3)));
  }
  // A word that happens to hold an address says less than the array that holds all of the kind.
  const BlockNumber first = heap.add(56);
  heap.link(table, 8 * 50, first);
  heap.link(1, 0x20, first);
  const BlockNumber leaked = heap.add(104);
  heap.link(leaked, 0, leaked);
  const TypeCensus census = take_type_census(heap.finish(), heap.streams);

  REQUIRE(census.types.size() == 1);
  CHECK(row_of(census, session).own == Tally{50, 2000});
  uint64_t names = 0;
  for (uint32_t i = 0; i < 50; ++i) names += 24 + 16 * (i % 3);
  CHECK(row_of(census, session).retained == Tally{100, 2000 + names});
  CHECK(census.in_use == Tally{103, 1016 + 2000 + names + 56 + 104});
  CHECK(census.typed == Tally{50, 2000});
  CHECK(sum_of(census.unknown).bytes == census.in_use.bytes - 2000);

  const TypeRow* const named = row_of(census, {Holder::kType, session, 0x18});
  REQUIRE(named != nullptr);
  CHECK(named->own == Tally{50, names});
  CHECK(named->least_size == 24);
  CHECK(named->most_size == 56);
  const TypeRow* const held = row_of(census, {Holder::kRoot, cache, BlockContext::kSomewhere});
  REQUIRE(held != nullptr);
  CHECK(held->own == Tally{1, 1016});
  CHECK(held->retained.bytes == census.in_use.bytes - 104);
  const TypeRow* const in_array = row_of(census, {Holder::kArray, 0, BlockContext::kSomewhere});
  REQUIRE(in_array != nullptr);
  CHECK(in_array->own == Tally{1, 56});
  const TypeRow* const lost = row_of(census, BlockContext{});
  REQUIRE(lost != nullptr);
  CHECK(lost->own == Tally{1, 104});
}

TEST_CASE("what an array holds is of one size, wherever in it") {
  HandmadeHeap heap;
  const TypeNumber buffer = heap.add_type("std::deque buffer", TypeSource::kStructure);
  const TypeNumber rows = heap.add_type("Row[]", TypeSource::kDebugInfo);
  const uint32_t queue = heap.add_place(RootKind::kVariable, "g_queue");
  const BlockNumber text = heap.add(24);
  const auto fill = [&](BlockNumber array) {
    heap.hold(queue, array);
    for (uint32_t i = 0; i < 30; ++i) {
      const BlockNumber element = heap.add(i % 3 == 0 ? 88 : 72);
      heap.link(array, 8 * i, element);
      heap.link(element, 16, text);
    }
  };
  fill(heap.add(504, buffer));
  fill(heap.add(248, rows));
  const TypeCensus census = take_type_census(heap.finish(), heap.streams);
  for (const TypeNumber holder : {buffer, rows}) {
    std::vector<Tally> held;
    for (const TypeRow& row : census.unknown) {
      if (row.context.kind != Holder::kType || row.context.holder != holder) continue;
      CHECK(row.context.held_at == BlockContext::kSomewhere);
      held.push_back(row.own);
    }
    std::sort(held.begin(), held.end(),
              [](const Tally& a, const Tally& b) { return a.count > b.count; });
    CHECK(held == std::vector<Tally>{{20, 20 * 72}, {10, 10 * 88}});
  }
}

TEST_CASE("what is of one size at one place is one row, with references or without") {
  HandmadeHeap heap;
  const uint32_t cache = heap.add_place(RootKind::kVariable, "g_cache");
  const BlockNumber table = heap.add(1016);
  heap.hold(cache, table);
  const auto fill = [&](uint64_t size, bool has_name) {
    const BlockNumber element = heap.add(size);
    heap.link(table, 8 * element, element);
    if (has_name) heap.link(element, 16, heap.add(24));
  };
  for (uint32_t i = 0; i < 30; ++i) fill(200, i % 3 == 0);
  const BlockContext in_array{Holder::kArray, 0, BlockContext::kSomewhere};
  SUBCASE("of one size") {
    const TypeCensus census = take_type_census(heap.finish(), heap.streams);
    CHECK(census.unknown.size() == 3);  // with the table, and the names
    const TypeRow* const elements = row_of(census, in_array);
    REQUIRE(elements != nullptr);
    CHECK(elements->own == Tally{30, 30 * 200});
    CHECK(elements->retained == Tally{40, 30 * 200 + 10 * 24});
  }
  SUBCASE("texts of several sizes are another row") {
    fill(72, false);
    const TypeCensus census = take_type_census(heap.finish(), heap.streams);
    CHECK(census.unknown.size() == 4);
    const TypeRow* const texts = row_of(census, in_array);
    REQUIRE(texts != nullptr);
    CHECK(texts->own == Tally{21, 20 * 200 + 72});
  }
}

TEST_CASE("what thread-local storage without names holds in several threads is one row") {
  HandmadeHeap heap;
  for (int tid = 1; tid <= 3; ++tid) {
    const uint32_t storage = heap.add_place(RootKind::kThreadLocal, "", tid);
    heap.streams.places[storage].module = "/opt/server";
    heap.streams.places[storage].module_offset = 0x3d00;
    heap.hold(storage, heap.add(1016), 0x10);
  }
  const TypeCensus census = take_type_census(heap.finish(), heap.streams);
  REQUIRE(census.unknown.size() == 1);
  CHECK(census.unknown[0].own == Tally{3, 3 * 1016});
}

TEST_CASE("the nodes of a list are one row, whatever holds the first") {
  HandmadeHeap heap;
  const TypeNumber list = heap.add_type("List");
  const BlockNumber head = heap.add(40, list);
  heap.hold(heap.add_place(RootKind::kStack, "main", 7), head);
  BlockNumber last = head;
  for (int i = 0; i < 100; ++i) {
    const BlockNumber node = heap.add(24);
    heap.link(last, 8, node);
    last = node;
  }
  const TypeCensus census = take_type_census(heap.finish(), heap.streams);
  const TypeRow* const nodes = row_of(census, {Holder::kSize, 24, 8});
  REQUIRE(nodes != nullptr);
  CHECK(nodes->own == Tally{99, 99 * 24});
  CHECK(nodes->retained == Tally{99, 99 * 24});
  const TypeRow* const first = row_of(census, {Holder::kType, list, 8});
  REQUIRE(first != nullptr);
  CHECK(first->own == Tally{1, 24});
  CHECK(first->retained == Tally{100, 100 * 24});
}

TEST_CASE("a type counts once what blocks of it hold one below the other") {
  HandmadeHeap heap;
  const TypeNumber node = heap.add_type("Node");
  const TypeNumber leaf = heap.add_type("Leaf");
  const TypeNumber same_node = heap.add_type("Node");  // in the file for a second time
  const uint32_t root = heap.add_place(RootKind::kVariable, "g_root");
  const BlockNumber a = heap.add(24, node);
  const BlockNumber b = heap.add(40, leaf);
  const BlockNumber c = heap.add(56, same_node);
  const BlockNumber d = heap.add(72, leaf);
  const BlockNumber lost = heap.add(88, node);  // and what it leads to
  const BlockNumber e = heap.add(104, leaf);
  heap.hold(root, a);
  heap.link(a, 0, b);
  heap.link(b, 0, c);
  heap.link(c, 0, d);
  heap.link(lost, 0, e);
  const TypeCensus census = take_type_census(heap.finish(), heap.streams);
  REQUIRE(census.types.size() == 2);
  CHECK(row_of(census, node).own == Tally{3, 24 + 56 + 88});
  CHECK(row_of(census, node).retained == Tally{6, 24 + 40 + 56 + 72 + 88 + 104});
  CHECK(row_of(census, leaf).own == Tally{3, 40 + 72 + 104});
  CHECK(row_of(census, leaf).retained == Tally{4, 40 + 56 + 72 + 104});
  CHECK(census.unknown.empty());
}

// Of a type: all blocks without one of which, of that type, something would not be reached.
TEST_CASE("what types retain is what follows from the definition") {
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    const Edges edges = random_edges(random, 14);
    HandmadeHeap heap;
    const TypeNumber types[] = {0, heap.add_type("A"), heap.add_type("B")};
    for (size_t block = 0; block < edges.size(); ++block) {
      heap.add(24 + 16 * (random() % 4), types[random() % 3]);
    }
    for (BlockNumber block = 0; block < edges.size(); ++block) {
      uint32_t offset = 0;
      for (const BlockNumber target : edges[block]) heap.link(block, 8 * offset++, target);
    }
    const BlockNumber root = random() % edges.size();
    heap.hold(heap.add_place(RootKind::kVariable, "g_root"), root);
    const SnapshotStreams streams = heap.finish();
    const TypeCensus census = take_type_census(streams, heap.streams);
    std::vector<BlockNumber> starts = {root};
    {
      const ReferenceGraph graph = graph_of(edges);
      const BlockSet known = reachable_blocks(graph, starts);
      for (const BlockNumber source : sources_of_rest(graph, known)) starts.push_back(source);
    }
    for (const TypeNumber type : {types[1], types[2]}) {
      std::vector<bool> retained(edges.size());
      for (BlockNumber block = 0; block < edges.size(); ++block) {
        if (heap.blocks[block].type != type) continue;
        const std::vector<bool> left = reached(edges, starts, block);
        for (size_t one = 0; one < edges.size(); ++one) {
          if (!left[one]) retained[one] = true;
        }
      }
      Tally truth;
      for (size_t one = 0; one < edges.size(); ++one) {
        if (retained[one]) truth.add(heap.blocks[one].size);
      }
      if (truth.count != 0) REQUIRE(row_of(census, type).retained == truth);
    }
    CHECK(sum_of(census.types) == census.typed);
    CHECK(sum_of(census.types).bytes + sum_of(census.unknown).bytes == census.in_use.bytes);
  }
}

TEST_CASE("a list of many blocks is no deeper than any other") {
  HandmadeHeap heap;
  const TypeNumber types[] = {heap.add_type("Even"), heap.add_type("Odd")};
  constexpr uint32_t kBlocks = 300'000;  // 28 bytes of stack each would be more than there is
  for (uint32_t i = 0; i < kBlocks; ++i) {
    heap.add(24, types[i % 2]);
    if (i != 0) heap.link(i - 1, 0, i);
  }
  heap.hold(heap.add_place(RootKind::kVariable, "g_list"), 0);
  const TypeCensus census = take_type_census(heap.finish(), heap.streams);
  CHECK(row_of(census, types[0]).retained.count == kBlocks);
  CHECK(row_of(census, types[1]).retained.count == kBlocks - 1);
}

TEST_CASE("types, places and blocks that are not there are refused or left out") {
  HandmadeHeap heap;
  const BlockNumber block = heap.add(24, 77);  // of a type that has no name
  const uint32_t place = heap.add_place(RootKind::kVariable, "g_one");
  heap.hold(place, block);
  SUBCASE("a type") {
    const TypeCensus census = take_type_census(heap.finish(), heap.streams);
    CHECK(census.typed == Tally{});
    REQUIRE(census.unknown.size() == 1);
    CHECK(census.unknown.front().own == Tally{1, 24});
  }
  SUBCASE("a type without a name") {
    heap.blocks[block].type = heap.add_type("");
    CHECK(take_type_census(heap.finish(), heap.streams).typed == Tally{});
  }
  SUBCASE("a place") {
    heap.hold(place + 1, block);
    CHECK_THROWS_AS(take_type_census(heap.finish(), heap.streams), Error);
  }
  SUBCASE("a block") {
    heap.hold(place, block + 1);
    CHECK_THROWS_AS(take_type_census(heap.finish(), heap.streams), Error);
  }
  SUBCASE("one that a reference leads to") {
    heap.link(block, 0, block + 1);
    CHECK_THROWS_AS(take_type_census(heap.finish(), heap.streams), Error);
  }
  SUBCASE("an offset past its block's end") {
    const BlockNumber other = heap.add(40);
    heap.link(block, 0xfffffff8, other);
    const TypeCensus census = take_type_census(heap.finish(), heap.streams);
    CHECK(row_of(census, {Holder::kSize, 24, BlockContext::kSomewhere}) != nullptr);
  }
}
