// Of several ways to a block, which variable each is of.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "analysis/held_block.h"
#include "handmade_references.h"

using namespace heapsnap;
using namespace heapsnap::test;

TEST_CASE("the way from an owner without a name is shown in whichever of its threads it begins") {
  HandmadeHeap heap;
  BlockNumber wanted = 0;
  for (int tid = 1; tid <= 2; ++tid) {
    const uint32_t storage = heap.add_place(RootKind::kThreadLocal, "", tid);
    heap.streams.places[storage].module = "/opt/server";
    heap.streams.places[storage].module_offset = 0x3d00;
    const BlockNumber list = heap.add(24);
    heap.hold(storage, list, 0x10);
    wanted = heap.add(56);
    heap.link(list, 0, wanted);
  }
  const uint32_t frame = heap.add_place(RootKind::kStack, "work", 2);
  heap.hold(frame, wanted);
  const SnapshotStreams streams = heap.finish();
  heap.snapshot.metadata.threads = {{1, "worker", {}}, {2, "worker", {}}};
  const auto held = explain_block(streams, heap.streams, heap.address_of(wanted), 1);
  REQUIRE(held);
  REQUIRE(held->paths.size() == 1);
  const RootPlace& place = heap.streams.places[held->paths[0].place];
  CHECK(place.kind == RootKind::kThreadLocal);
  CHECK(place.tid == 2);
}

TEST_CASE("of variables without names, each has a way of its own") {
  HandmadeHeap heap;
  const uint32_t section = heap.add_place(RootKind::kVariable, "");
  heap.streams.places[section].size = 0x1000;
  const BlockNumber wanted = heap.add(72);
  std::vector<BlockNumber> tables;
  for (uint64_t offset = 0; offset < 0xc00; offset += 0x400) {
    const BlockNumber table = heap.add(40 + 16 * offset);
    heap.hold(section, table, offset);
    heap.hold(section, table, offset + 8);  // a word more of the same variable
    heap.link(table, 0, wanted);
    tables.push_back(table);
  }
  const SnapshotStreams streams = heap.finish();
  const auto held = explain_block(streams, heap.streams, heap.address_of(wanted), 10);
  REQUIRE(held);
  std::vector<BlockNumber> found;
  for (const HeldPath& path : held->paths) {
    found.push_back(path.steps.front().block.number);
    CHECK_FALSE(path.is_owner);  // all together
  }
  std::ranges::sort(found);
  CHECK(found == tables);
}

TEST_CASE("a nameless variable's word is its own, also where another variable lies between") {
  HandmadeHeap heap;
  const uint32_t section = heap.add_place(RootKind::kVariable, "");
  heap.streams.places[section].size = 0x1000;
  const BlockNumber first = heap.add(40);
  const BlockNumber wanted = heap.add(72);
  const BlockNumber other = heap.add(200);
  heap.link(first, 0, wanted);
  heap.hold(section, first, 0);  // its blocks hang together with those of the word at 64
  heap.hold(section, other, 32);
  heap.hold(section, wanted, 64);
  const SnapshotStreams streams = heap.finish();
  const auto held = explain_block(streams, heap.streams, heap.address_of(wanted), 10);
  REQUIRE(held);
  REQUIRE(held->paths.size() == 1);
  CHECK(held->paths[0].is_owner);
  REQUIRE(held->paths[0].steps.size() == 1);
  CHECK(held->paths[0].steps[0].held_at == 64);
}

TEST_CASE("ways that are left out for their length are not taken for doubtful ones") {
  constexpr size_t kLong = 600000;
  HandmadeHeap heap;
  const uint32_t first = heap.add_place(RootKind::kVariable, "g_first");
  const uint32_t second = heap.add_place(RootKind::kVariable, "g_second");
  const TypeNumber cursor = heap.add_type("Cursor");
  std::vector<BlockNumber> chain;
  for (size_t i = 0; i < kLong; ++i) chain.push_back(heap.add(24));
  for (size_t i = 1; i < kLong; ++i) heap.link(chain[i - 1], 0, chain[i]);
  std::vector<BlockNumber> cursors;
  for (int i = 0; i < 40; ++i) cursors.push_back(heap.add(136, cursor));
  heap.link(cursors[0], 64, chain.back());  // few cursors hold one there
  heap.hold(first, chain[0]);
  heap.hold(second, chain[1]);
  heap.hold(second, cursors[0], 8);
  const SnapshotStreams streams = heap.finish();
  const auto held = explain_block(streams, heap.streams, heap.address_of(chain.back()), 10);
  REQUIRE(held);
  CHECK(held->lacks_paths);
  REQUIRE(held->paths.size() == 1);
  CHECK(held->paths[0].place == second);
  CHECK(held->paths[0].steps.size() == kLong - 1);
  CHECK_FALSE(explain_block(streams, heap.streams, heap.address_of(chain[3]), 10)->lacks_paths);
}

TEST_CASE("no ways are said to be left out where long ones are all shown") {
  constexpr size_t kLong = 300000;
  HandmadeHeap heap;
  std::vector<BlockNumber> chain;
  for (size_t i = 0; i < kLong; ++i) chain.push_back(heap.add(24));
  for (size_t i = 1; i < kLong; ++i) heap.link(chain[i - 1], 0, chain[i]);
  for (const char* name : {"g_first", "g_second"}) {
    heap.hold(heap.add_place(RootKind::kVariable, name), chain[0]);
  }
  const SnapshotStreams streams = heap.finish();
  const auto held = explain_block(streams, heap.streams, heap.address_of(chain.back()), 10);
  REQUIRE(held);
  CHECK(held->paths.size() == 2);
  CHECK_FALSE(held->lacks_paths);
}
