#include "analysis/leak_census.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "analysis/leak_suppressions.h"
#include "base/error.h"
#include "handmade_references.h"
#include "references/storage_kind.h"

using namespace heapsnap;
using namespace heapsnap::test;

TEST_CASE("types that differ in what is known of their words alone are one") {
  HandmadeHeap heap;
  const TypeNumber plain = heap.add_type("Session*[]", TypeSource::kDebugInfo);
  const TypeNumber of_vectors = heap.add_type("Session*[]", TypeSource::kDebugInfo);
  heap.streams.types[of_vectors].pointers = ~uint64_t{0};
  heap.add(40, plain);
  heap.add(40, of_vectors);
  const SnapshotStreams streams = heap.finish();
  const LeakCensus census = take_leak_census(streams, heap.streams);
  REQUIRE(census.groups.size() == 1);
  CHECK(census.groups[0].type == plain);
  CHECK(census.groups[0].count == 2);
}

TEST_CASE("what no root reaches is leaked, and grouped by who allocated it, type or size") {
  HandmadeHeap heap;
  const TypeNumber session = heap.add_type("Session");
  const BlockNumber kept = heap.add(56);
  const BlockNumber lost = heap.add(56);
  const BlockNumber below = heap.add(120);
  const BlockNumber typed = heap.add(24, session);
  const BlockNumber tracked = heap.add(40, session, 7);
  const BlockNumber ring_a = heap.add(24);
  const BlockNumber ring_b = heap.add(24);
  const BlockNumber lost_too = heap.add(56);
  heap.hold(heap.add_place(RootKind::kVariable, "g"), kept);
  heap.link(lost, 8, below);
  heap.link(lost, 16, kept);
  heap.link(ring_a, 0, ring_b);
  heap.link(ring_b, 0, ring_a);
  const SnapshotStreams streams = heap.finish();
  const LeakCensus census = take_leak_census(streams, heap.streams);

  CHECK(census.in_use == Tally{8, 400});
  CHECK(census.all == Tally{7, 344});
  CHECK(census.kinds[static_cast<size_t>(LeakKind::kDirect)] == Tally{4, 176});
  CHECK(census.kinds[static_cast<size_t>(LeakKind::kIndirect)] == Tally{1, 120});
  CHECK(census.kinds[static_cast<size_t>(LeakKind::kCycle)] == Tally{2, 48});
  CHECK(census.held_by_several == Tally{});
  REQUIRE(census.blocks.size() == 7);
  CHECK(census.blocks[0].address == heap.address_of(lost));
  CHECK(census.blocks[1].address == heap.address_of(below));
  CHECK(census.blocks[1].kind == LeakKind::kIndirect);
  CHECK(census.blocks[2].address == heap.address_of(typed));
  CHECK(census.blocks[2].type == session);
  CHECK(census.blocks[3].address == heap.address_of(tracked));
  CHECK(census.blocks[3].stack == 7);
  CHECK(census.blocks[6].address == heap.address_of(lost_too));

  REQUIRE(census.groups.size() == 4);
  const LeakGroup& by_size = census.groups[0];
  CHECK(by_size.least_size == 56);
  CHECK(by_size.most_size == 56);
  CHECK(by_size.count == 2);
  CHECK(by_size.retained_blocks == 3);
  CHECK(by_size.retained_bytes == 56 + 120 + 56);
  CHECK(census.blocks[census.sources[by_size.largest].block].address == heap.address_of(lost));
  CHECK(census.groups[1].kind == LeakKind::kCycle);
  CHECK(census.groups[1].count == 1);
  CHECK(census.groups[1].retained_blocks == 2);
  CHECK(census.groups[2].stack == 7);
  CHECK(census.groups[3].type == session);
  CHECK(census.groups[3].retained_bytes == 24);
}

TEST_CASE("what is suppressed goes with all that it leads to") {
  HandmadeHeap heap;
  const TypeNumber known = heap.add_type("Known");
  const BlockNumber suppressed = heap.add(24, known);
  const BlockNumber shared = heap.add(40);
  const BlockNumber other = heap.add(56);
  heap.link(suppressed, 0, shared);
  heap.link(other, 0, shared);
  const SnapshotStreams streams = heap.finish();
  CHECK(take_leak_census(streams, heap.streams).held_by_several == Tally{1, 40});
  const LeakCensus census = take_leak_census(
      streams, heap.streams, [&](uint32_t, TypeNumber type) { return type == known; });
  CHECK(census.suppressed == Tally{2, 64});
  CHECK(census.all == Tally{1, 56});
  REQUIRE(census.sources.size() == 1);
  CHECK(census.sources[0].retained_bytes == 56);
}

TEST_CASE("caches that malloc makes for itself are no leaks") {
  HandmadeHeap heap;
  heap.add(648);
  heap.add(24);
  ThreadCache cache;
  cache.tid = 1;
  cache.tcache = heap.address_of(0);
  heap.snapshot.metadata.heap.thread_caches.push_back(cache);
  const SnapshotStreams streams = heap.finish();
  const LeakCensus census = take_leak_census(streams, heap.streams);
  CHECK(census.in_use == Tally{1, 24});
  CHECK(census.all == Tally{1, 24});
}

TEST_CASE("references that are of another number of blocks are refused") {
  HandmadeHeap heap;
  heap.add(24);
  SnapshotStreams streams = heap.finish();
  heap.blocks.push_back({24, 0, {}});
  CHECK_THROWS_AS(take_leak_census(streams, heap.streams), Error);
}

TEST_CASE("suppressions match as LeakSanitizer's do") {
  const auto matches = [](const char* pattern, const char* name) {
    return LeakSuppressions::parse(std::string("leak:") + pattern, "test").matches(name);
  };
  CHECK(matches("font", "libfontconfig.so.1"));
  CHECK(!matches("^font", "libfontconfig.so.1"));
  CHECK(matches("^lib*config", "libfontconfig.so.1"));
  CHECK(!matches("^lib*config$", "libfontconfig.so.1"));
  CHECK(matches("config.so.1$", "libfontconfig.so.1"));
  CHECK(matches("a*b$", "a-b-b"));
  CHECK(matches("^main$", "main"));
  CHECK(!matches("^main$", "domain"));
  CHECK(matches("*", "anything"));
  CHECK(!matches("x*y*z", "xzy"));
  CHECK(!matches("main", ""));
}

TEST_CASE("files of suppressions have comments and empty lines, and nothing but leaks") {
  const auto parsed = LeakSuppressions::parse("# known\n\n  leak:one \r\nleak:two\n", "test");
  CHECK(parsed.matches("one"));
  CHECK(parsed.matches("two"));
  CHECK(!parsed.matches("three"));
  CHECK(LeakSuppressions::parse("#\n", "test").is_empty());
  CHECK_THROWS_AS(LeakSuppressions::parse("race:one", "test"), Error);
  CHECK_THROWS_AS(LeakSuppressions::parse("leak:", "test"), Error);
}

TEST_CASE("a stack is suppressed by a function or a module further out") {
  RecordedStacks recorded;
  TrackerRecord tracker;
  tracker.modules.resize(2);
  tracker.modules[0].path = "/usr/bin/server";
  tracker.modules[1].path = "/usr/lib/libknown.so";
  recorded.stacks.nodes.resize(tracker::kFirstNode);
  const auto add = [&](uint32_t parent, int32_t module) {
    recorded.stacks.nodes.push_back({parent, module, Address(0x1000)});
    return static_cast<uint32_t>(recorded.stacks.nodes.size() - 1);
  };
  const uint32_t main = add(1, 0);
  const uint32_t known = add(main, 1);
  const uint32_t callback = add(known, 0);
  for (const uint32_t node : {main, known, callback}) {
    recorded.stacks.sites.emplace_back().node = node;
  }
  const auto suppressions = LeakSuppressions::parse("leak:libknown", "test");
  CHECK(suppressed_stacks(suppressions, recorded, tracker) == std::vector<bool>{false, true, true});
}

TEST_CASE("what hangs from unreachable objects of a runtime is garbage, and no leak") {
  HandmadeHeap heap;
  const BlockNumber kept = heap.add(56);
  const BlockNumber lost = heap.add(120);
  const BlockNumber buffer = heap.add(1000);
  const BlockNumber below = heap.add(24);
  const BlockNumber live = heap.add(64);
  const BlockNumber dead = heap.add(48);
  heap.slots = 2;
  heap.hold(heap.add_place(RootKind::kGlobal, "app.CACHE"), live);
  heap.link(live, 8, kept);
  heap.link(dead, 16, buffer);
  heap.link(dead, 24, kept);
  heap.link(buffer, 0, below);
  heap.link(lost, 0, dead);
  const SnapshotStreams streams = heap.finish();
  const LeakCensus census = take_leak_census(streams, heap.streams);
  CHECK(census.garbage == Tally{3, 48 + 1000 + 24});
  CHECK(census.all == Tally{1, 120});
  CHECK(census.in_use == Tally{6, 56 + 120 + 1000 + 24 + 64 + 48});
  REQUIRE(census.blocks.size() == 1);
  CHECK(census.blocks[0].address == heap.address_of(lost));
}

TEST_CASE("an unreachable object of a runtime is garbage in a block of malloc as in a slot") {
  HandmadeHeap heap;
  const TypeNumber big = heap.add_class("Big");
  const TypeNumber items = heap.add_type("list items", TypeSource::kRuntime);
  const BlockNumber live = heap.add(840, big);
  const BlockNumber dead = heap.add(840, big);
  const BlockNumber dead_items = heap.add(56, items);
  const BlockNumber below = heap.add(24);
  const BlockNumber lost_items = heap.add(72, items);
  const BlockNumber lost = heap.add(40, heap.add_type("Big"));  // a class of C++ with its name
  heap.hold(heap.add_place(RootKind::kGlobal, "app.CACHE"), live);
  heap.link(dead, 16, dead);
  heap.link(dead, 24, dead_items);
  heap.link(dead, 32, live);
  heap.link(dead_items, 0, below);
  heap.link(lost_items, 0, live);
  const SnapshotStreams streams = heap.finish();
  const LeakCensus census = take_leak_census(streams, heap.streams);
  CHECK(census.garbage == Tally{3, 840 + 56 + 24});
  CHECK(census.all == Tally{2, 72 + 40});
  REQUIRE(census.blocks.size() == 2);
  CHECK(census.blocks[0].address == heap.address_of(lost_items));
  CHECK(census.blocks[1].address == heap.address_of(lost));
}

TEST_CASE("what a runtime's collector does not track is leaked in a block of malloc") {
  HandmadeHeap heap;
  heap.add(2008, heap.add_class("bytes", false));
  const SnapshotStreams streams = heap.finish();
  const LeakCensus census = take_leak_census(streams, heap.streams);
  CHECK(census.garbage == Tally{});
  CHECK(census.all == Tally{1, 2008});
}

TEST_CASE("what a memory context has is no garbage: it has no collector") {
  HandmadeHeap heap;
  const TypeNumber context = heap.add_class("Cache (context block)");
  heap.streams.types[context].part = kContextPart;
  heap.add(1016, context);
  const SnapshotStreams streams = heap.finish();
  const LeakCensus census = take_leak_census(streams, heap.streams);
  CHECK(census.garbage == Tally{});
  CHECK(census.all == Tally{1, 1016});
}

TEST_CASE("cycles that are made alike are one group, in whatever order their blocks lie") {
  HandmadeHeap heap;
  const TypeNumber node = heap.add_type("std::_Rb_tree_node<std::pair<std::string const, int>>");
  const TypeNumber cart = heap.add_type("shop::Cart");
  const TypeNumber session =
      heap.add_type("std::_Sp_counted_ptr_inplace<shop::Session, std::allocator<void>, 2>");
  const TypeNumber holder = heap.add_type("std::_List_node<shop::Session>");
  const TypeNumber array = heap.add_type("shop::Cart*[]", TypeSource::kDebugInfo);
  const TypeNumber numbers = heap.add_type("int[]", TypeSource::kDebugInfo);
  const TypeNumber file = heap.add_type("FILE", TypeSource::kStructure);
  const auto ring = [&heap](const std::vector<std::pair<uint64_t, TypeNumber>>& blocks) {
    std::vector<BlockNumber> members;
    for (const auto& [bytes, type] : blocks) members.push_back(heap.add(bytes, type));
    for (size_t i = 0; i < members.size(); ++i) {
      heap.link(members[i], 8, members[(i + 1) % members.size()]);
    }
    return members;
  };
  ring({{200, node}, {104, session}, {56, cart}, {40, 0}});
  ring({{56, cart}, {200, node}, {40, 0}, {104, session}});
  const auto largest =
      ring({{72, cart}, {600, array}, {120, session}, {2000, numbers}, {800, file}});
  const auto held = ring({{40, 0}, {400, node}, {24, holder}});
  const auto unknown = ring({{100, node}, {40, 0}, {80, numbers}, {80, file}});
  const SnapshotStreams streams = heap.finish();
  const LeakCensus census = take_leak_census(streams, heap.streams);
  const auto address_of_group = [&](size_t group) {
    return census.blocks[census.sources[census.groups[group].largest].block].address;
  };
  REQUIRE(census.groups.size() == 3);
  const LeakGroup& sessions = census.groups[0];
  CHECK(sessions.type == session);
  CHECK(sessions.count == 3);
  CHECK(sessions.partners == std::vector<TypeNumber>{cart});
  CHECK(address_of_group(0) == heap.address_of(largest[2]));
  CHECK(census.groups[1].type == holder);
  CHECK(census.groups[1].partners.empty());
  CHECK(address_of_group(1) == heap.address_of(held[2]));
  CHECK(census.groups[2].type == 0);
  CHECK(address_of_group(2) == heap.address_of(unknown[1]));
}

TEST_CASE("an object that is leaked with its containers is no cycle") {
  HandmadeHeap heap;
  const auto node_type = [&heap](StorageKind kind) {
    return heap.add_type(to_string(kind), TypeSource::kStructure);
  };
  const BlockNumber object = heap.add(200, heap.add_type("shop::Account"));
  // Where its containers lie.
  constexpr uint32_t kMap = 8;
  constexpr uint32_t kList = 64;
  constexpr uint32_t kTable = 96;
  const TypeNumber tree_node = node_type(StorageKind::kTreeNode);
  const BlockNumber root = heap.add(40, tree_node);
  const BlockNumber left = heap.add(40, tree_node);
  heap.link(object, kMap + 8, root);
  heap.link(root, 8, object, true);
  heap.link(root, 16, left);
  heap.link(left, 8, root);
  const TypeNumber list_node = node_type(StorageKind::kListNode);
  const BlockNumber first = heap.add(24, list_node);
  const BlockNumber last = heap.add(24, list_node);
  heap.link(object, kList, first);
  heap.link(object, kList + 8, last);
  heap.link(first, 0, last);
  heap.link(first, 8, object, true);
  heap.link(last, 0, object, true);
  heap.link(last, 8, first);
  const BlockNumber buckets = heap.add(104, node_type(StorageKind::kHashBuckets));
  const BlockNumber node = heap.add(24, node_type(StorageKind::kHashNode));
  heap.link(object, kTable, buckets);
  heap.link(object, kTable + 16, node);
  heap.link(buckets, 16, object, true);
  const auto kinds = [&heap] {
    const SnapshotStreams streams = heap.finish();
    return take_leak_census(streams, heap.streams).kinds;
  };
  SUBCASE("but it keeps what is in them") {
    const auto [direct, indirect, cycles] = kinds();
    CHECK(direct.count == 1);
    CHECK(indirect.count == 6);
    CHECK(cycles.count == 0);
  }
  SUBCASE("unless an element leads to it") {
    heap.link(node, 8, object);
    const auto [direct, indirect, cycles] = kinds();
    CHECK(direct.count == 0);
    CHECK(indirect.count == 5);
    CHECK(cycles.count == 2);
  }
}
