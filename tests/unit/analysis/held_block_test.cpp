#include "analysis/held_block.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "handmade_references.h"
#include "references/storage_kind.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// The first words of `frame` lie below its stack pointer.
Thread thread_above(const HandmadeHeap& heap, uint32_t frame) {
  Registers registers;
  registers.stack_pointer = heap.streams.places[frame].begin + 0x80;
  return {7, "worker", registers};
}

struct HeldList {
  uint32_t place = 0;
  std::vector<BlockNumber> nodes;
};

// Of a container of which the snapshot says where it keeps the first node's address.
HeldList add_list(HandmadeHeap& heap, size_t nodes) {
  const TypeNumber type = heap.add_type(to_string(StorageKind::kListNode), TypeSource::kStructure);
  HeldList list{heap.add_place(RootKind::kVariable, "g_list"), {}};
  for (size_t i = 0; i < nodes; ++i) list.nodes.push_back(heap.add(40, type));
  for (size_t i = 1; i < nodes; ++i) {
    heap.link(list.nodes[i - 1], 0, list.nodes[i]);
    heap.link(list.nodes[i], 8, list.nodes[i - 1]);
  }
  heap.hold(list.place, list.nodes[0], 0x10);
  heap.streams.containers = {{kNoBlock, 0, heap.streams.places[list.place].begin + 0x10, 2}};
  return list;
}

}  // namespace

TEST_CASE("a block is explained by the ways to it, and by what would go with it") {
  HandmadeHeap heap;
  const TypeNumber session = heap.add_type("Session");
  const uint32_t near = heap.add_place(RootKind::kVariable, "near");
  const uint32_t far = heap.add_place(RootKind::kVariable, "far");
  const BlockNumber list = heap.add(24);
  const BlockNumber item = heap.add(40, session);
  const BlockNumber text = heap.add(56);
  const BlockNumber own = heap.add(72);
  const BlockNumber shared = heap.add(88);
  heap.hold(far, list, 0x20);
  heap.hold(near, item, 0x10);
  heap.link(list, 16, item);
  heap.link(item, 8, text);
  heap.link(text, 0x30, own);
  heap.link(text, 0x28, shared);
  heap.link(list, 0, shared);
  const SnapshotStreams streams = heap.finish();

  const auto held = explain_block(streams, heap.streams, heap.address_of(text) + 5, 10);
  REQUIRE(held);
  CHECK(held->block.number == text);
  CHECK(held->block.bytes == 56);
  CHECK(held->offset == 5);
  CHECK(held->retained == Tally{2, 128});
  REQUIRE(held->paths.size() == 2);
  CHECK(held->paths[0].place == near);
  REQUIRE(held->paths[0].steps.size() == 2);
  CHECK(held->paths[0].steps[0].held_at == 0x10);
  CHECK(held->paths[0].steps[0].block.address == heap.address_of(item));
  CHECK(held->paths[0].steps[0].block.type == session);
  CHECK(held->paths[0].steps[1].held_at == 8);
  CHECK(held->paths[1].place == far);
  REQUIRE(held->paths[1].steps.size() == 3);
  CHECK(held->paths[1].steps[0].held_at == 0x20);
  CHECK(held->paths[1].steps[1].held_at == 16);
  CHECK(held->source_count == 1);
  REQUIRE(held->sources.size() == 1);
  CHECK(held->sources[0].block.number == item);
  CHECK(explain_block(streams, heap.streams, heap.address_of(text), 1)->paths.size() == 1);
  CHECK(!explain_block(streams, heap.streams, Address(0x99), 1));
  CHECK(!explain_block(streams, heap.streams, heap.address_of(text) + 56, 1));
}

TEST_CASE("the way through a container comes before those of its iterators") {
  HandmadeHeap heap;
  const uint32_t cursor = heap.add_place(RootKind::kVariable, "g_cursor");
  const HeldList list = add_list(heap, 2);
  heap.hold(cursor, list.nodes[1]);
  const SnapshotStreams streams = heap.finish();
  const auto held = explain_block(streams, heap.streams, heap.address_of(list.nodes[1]), 10);
  REQUIRE(held);
  REQUIRE(held->paths.size() == 2);
  CHECK(held->paths[0].place == list.place);
  CHECK_FALSE(held->paths[0].steps[0].may_be_stale);
  CHECK(held->paths[1].place == cursor);
  CHECK(held->paths[1].steps[0].may_be_stale);
}

TEST_CASE("an iterator in a block comes after a longer way through the container") {
  HandmadeHeap heap;
  const uint32_t reader = heap.add_place(RootKind::kVariable, "g_reader");
  const HeldList list = add_list(heap, 3);
  const BlockNumber iterator = heap.add(24);
  heap.hold(reader, iterator);
  heap.link(iterator, 8, list.nodes[2]);
  const SnapshotStreams streams = heap.finish();
  const auto held = explain_block(streams, heap.streams, heap.address_of(list.nodes[2]), 10);
  REQUIRE(held);
  REQUIRE(held->paths.size() == 2);
  CHECK(held->paths[0].place == list.place);
  CHECK(held->paths[0].steps.size() == 3);
  CHECK(held->paths[1].place == reader);
  CHECK_FALSE(held->paths[1].steps[0].may_be_stale);
  CHECK(held->paths[1].steps[1].may_be_stale);
}

TEST_CASE("what a runtime frees at its next collection is garbage and not leaked") {
  HandmadeHeap heap;
  const uint32_t place = heap.add_place(RootKind::kVariable, "g_cache");
  heap.hold(place, heap.add(40));
  const BlockNumber leaked = heap.add(40);
  const BlockNumber buffer = heap.add(40);
  heap.link(heap.add(40), 8, buffer);  // of an object
  heap.slots = 1;
  const SnapshotStreams streams = heap.finish();
  const auto explained = [&](BlockNumber block) {
    const auto held = explain_block(streams, heap.streams, heap.address_of(block), 5);
    REQUIRE(held);
    CHECK(held->paths.empty());
    return *held;
  };
  CHECK_FALSE(explained(leaked).is_garbage);
  CHECK(explained(buffer).is_garbage);
}

TEST_CASE("an object in a block of malloc is garbage where its runtime has no slots at all") {
  HandmadeHeap heap;
  heap.add(24);
  const BlockNumber leaked = heap.add(40);
  const BlockNumber items = heap.add(40);
  const BlockNumber object = heap.add(56, heap.add_class("list"));
  heap.link(object, 24, items);
  const SnapshotStreams streams = heap.finish();
  CHECK_FALSE(explain_block(streams, heap.streams, heap.address_of(leaked), 5)->is_garbage);
  CHECK(explain_block(streams, heap.streams, heap.address_of(object), 5)->is_garbage);
  CHECK(explain_block(streams, heap.streams, heap.address_of(items), 5)->is_garbage);
}

TEST_CASE("a block retains what its root owns, also while a frame works on a part of it") {
  HandmadeHeap heap;
  const uint32_t cache = heap.add_place(RootKind::kVariable, "cache");
  const uint32_t frame = heap.add_place(RootKind::kStack, "insert", 7);
  const BlockNumber map = heap.add(40);
  const BlockNumber node = heap.add(56);
  const BlockNumber next = heap.add(72);
  heap.hold(cache, map, 0);
  heap.hold(frame, node, 0x10);
  heap.link(map, 8, node);
  heap.link(node, 0, next);
  const SnapshotStreams streams = heap.finish();
  const auto held = explain_block(streams, heap.streams, heap.address_of(map), 10);
  REQUIRE(held);
  CHECK(held->retained == Tally{3, 168});
}

TEST_CASE("the way from what owns a block is among those that are shown") {
  HandmadeHeap heap;
  const uint32_t loop = heap.add_place(RootKind::kGlobal, "app.LOOP");
  const BlockNumber list = heap.add(24);
  const BlockNumber item = heap.add(40);
  const BlockNumber wanted = heap.add(56);
  heap.hold(loop, list);
  heap.link(list, 0, item);
  heap.link(item, 8, wanted);
  const std::string calls[] = {"main()", "serve()", "load()"};
  for (const std::string& call : calls) {
    heap.hold(heap.add_place(RootKind::kLocal, "task in " + call + " at app.py:3", 7), wanted);
  }
  const SnapshotStreams streams = heap.finish();
  const auto places = [&](size_t limit) {
    std::string found;
    const auto held = explain_block(streams, heap.streams, heap.address_of(wanted), limit);
    for (const HeldPath& path : held->paths) found += heap.streams.places[path.place].name + ", ";
    return found;
  };
  CHECK(places(1) == "app.LOOP, ");
  CHECK(places(2) == "task in main() at app.py:3, app.LOOP, ");
  CHECK(places(4).ends_with("task in load() at app.py:3, app.LOOP, "));
}

TEST_CASE(
    "the way from a function's local variable is shown at whichever line and thread it begins") {
  HandmadeHeap heap;
  const BlockNumber wanted = heap.add(56);
  const BlockNumber list = heap.add(24);
  const BlockNumber other = heap.add(24);
  heap.hold(heap.add_place(RootKind::kLocal, "rows in load() at shop.py:3", 7), other);
  const uint32_t second = heap.add_place(RootKind::kLocal, "rows in load() at shop.py:9", 8);
  heap.hold(second, list);
  heap.link(list, 0, wanted);
  // Frames that work on it are nearer.
  for (int i = 0; i < 3; ++i) {
    heap.hold(heap.add_place(RootKind::kStack, "f" + std::to_string(i), 8), wanted);
  }
  const SnapshotStreams streams = heap.finish();
  heap.snapshot.metadata.threads = {{7, "worker-1", {}}, {8, "worker-2", {}}};
  const auto held = explain_block(streams, heap.streams, heap.address_of(wanted), 2);
  REQUIRE(held);
  CHECK(
      std::ranges::any_of(held->paths, [&](const HeldPath& path) { return path.place == second; }));
}

TEST_CASE("a block in which a runtime has its objects is no thread's cache, and not leaked") {
  HandmadeHeap heap;
  const BlockNumber arena = heap.add(4088);
  const BlockNumber cache = heap.add(648);
  const SnapshotStreams streams = heap.finish();
  RuntimeArea area;
  area.range = {heap.address_of(arena), heap.address_of(arena) + 4088};
  area.is_transient = true;
  area.is_in_malloc = true;
  heap.snapshot.metadata.runtimes.areas.push_back(area);
  heap.snapshot.metadata.heap.thread_caches.push_back({7, heap.address_of(cache), 0, 0, 0});
  const auto of_runtime = explain_block(streams, heap.streams, heap.address_of(arena), 1);
  REQUIRE(of_runtime);
  CHECK(of_runtime->block.is_mallocs_own);
  CHECK(!of_runtime->block.is_thread_cache);
  const auto of_thread = explain_block(streams, heap.streams, heap.address_of(cache), 1);
  REQUIRE(of_thread);
  CHECK(of_thread->block.is_thread_cache);
}

TEST_CASE("ways by words that may be stale come last, and say so") {
  HandmadeHeap heap;
  const uint32_t near = heap.add_place(RootKind::kVariable, "near");
  const uint32_t far = heap.add_place(RootKind::kVariable, "far");
  const uint32_t frame = heap.add_place(RootKind::kStack, "read", 7);
  const BlockNumber wanted = heap.add(56);
  const BlockNumber list = heap.add(24);
  heap.hold(far, list);
  const BlockNumber item = heap.add(40);
  heap.link(list, 0, item);
  heap.link(item, 8, wanted);
  // Of a hundred blocks of one size, one holds an address in its third word.
  const BlockNumber table = heap.add(1016);
  heap.hold(near, table);
  for (uint32_t i = 0; i < 100; ++i) heap.link(table, 8 * i, heap.add(88));
  heap.link(table + 50, 16, wanted);
  heap.hold(frame, wanted, 0x28);
  const SnapshotStreams streams = heap.finish();
  heap.snapshot.metadata.threads = {thread_above(heap, frame)};
  const auto held = explain_block(streams, heap.streams, heap.address_of(wanted), 10);
  REQUIRE(held);
  REQUIRE(held->paths.size() == 3);
  CHECK(held->paths[0].place == far);
  for (const HeldStep& step : held->paths[0].steps) CHECK(!step.may_be_stale);
  CHECK(held->paths[1].place == frame);
  CHECK(held->paths[1].steps[0].may_be_stale);
  CHECK(held->paths[2].place == near);
  REQUIRE(held->paths[2].steps.size() == 3);
  CHECK(!held->paths[2].steps[1].may_be_stale);
  CHECK(held->paths[2].steps[2].may_be_stale);
}

TEST_CASE(
    "the way from what owns a block is shown, also if only a word that may be stale leads on") {
  HandmadeHeap heap;
  const uint32_t owner = heap.add_place(RootKind::kVariable, "g_table");
  const uint32_t in_register = heap.add_place(RootKind::kRegister, "rbx", 7);
  const BlockNumber wanted = heap.add(56);
  const BlockNumber table = heap.add(1016);
  heap.hold(owner, table);
  for (uint32_t i = 0; i < 100; ++i) heap.link(table, 8 * i, heap.add(88));
  heap.link(table + 50, 16, wanted);
  heap.hold(in_register, wanted);
  const SnapshotStreams streams = heap.finish();
  const auto places = [&](size_t limit) {
    std::vector<uint32_t> found;
    const auto held = explain_block(streams, heap.streams, heap.address_of(wanted), limit);
    for (const HeldPath& path : held->paths) found.push_back(path.place);
    return found;
  };
  CHECK(places(1) == std::vector{owner});
  CHECK(places(2) == std::vector{in_register, owner});
}

TEST_CASE("the owner's way comes before those by words that may be stale") {
  HandmadeHeap heap;
  const uint32_t section = heap.add_place(RootKind::kVariable, "");
  const uint32_t frame = heap.add_place(RootKind::kStack, "read", 7);
  heap.streams.places[section].size = 0x1000;
  const BlockNumber inside = heap.add(24);
  const BlockNumber first = heap.add(40);
  const BlockNumber second = heap.add(56);
  const BlockNumber wanted = heap.add(72);
  heap.hold(section, inside);
  heap.link(inside, 8, wanted, true);
  heap.hold(section, first, 0x800);
  heap.link(first, 0, second);
  heap.link(second, 0, wanted);
  heap.hold(frame, wanted, 0x28);
  const SnapshotStreams streams = heap.finish();
  heap.snapshot.metadata.threads = {thread_above(heap, frame)};
  const auto held = explain_block(streams, heap.streams, heap.address_of(wanted), 10);
  REQUIRE(held);
  REQUIRE(held->paths.size() == 3);
  CHECK(held->paths[0].steps.front().block.number == inside);
  CHECK_FALSE(held->paths[0].is_owner);
  CHECK(held->paths[1].steps.front().block.number == first);
  CHECK(held->paths[1].is_owner);
  CHECK(held->paths[2].place == frame);
}

TEST_CASE("references of other blocks than the snapshot's are refused, before anything is asked") {
  HandmadeHeap heap;
  const BlockNumber first = heap.add(24);
  heap.hold(heap.add_place(RootKind::kVariable, "g_cache"), first);
  const SnapshotStreams streams = heap.finish();
  for (int i = 0; i < 10'000; ++i) heap.link(first, 8, heap.add(24), true);
  CHECK_THROWS_AS(explain_block(streams, heap.streams, heap.address_of(first), 5), Error);
}

TEST_CASE("a word into a memory context's block may be stale: its context holds it") {
  HandmadeHeap heap;
  const TypeNumber contexts = heap.add_type("ExecutorState (context block)", TypeSource::kRuntime);
  heap.streams.types.back().part = kContextPart;
  const uint32_t context = heap.add_place(RootKind::kGlobal, "memory context ExecutorState");
  const uint32_t variable = heap.add_place(RootKind::kVariable, "plpgsql_Datums");
  const uint32_t first = heap.add_place(RootKind::kVariable, "CurrentMemoryContext");
  const BlockNumber other = heap.add(1016);
  const BlockNumber block = heap.add(8200, contexts);
  const BlockNumber second = heap.add(16392, contexts);
  heap.hold(context, block);
  heap.hold(first, block);
  heap.link(block, 0xd8, second);
  heap.hold(variable, block);
  heap.roots.back().interior = true;
  const uint32_t cache = heap.add_place(RootKind::kVariable, "cache");
  heap.hold(cache, other);
  heap.link(other, 64, second, true);
  const SnapshotStreams streams = heap.finish();
  const auto held = explain_block(streams, heap.streams, heap.address_of(second), 10);
  REQUIRE(held);
  REQUIRE(held->paths.size() == 4);
  for (const size_t way : {0, 1}) {
    CHECK((held->paths[way].place == context || held->paths[way].place == first));
    for (const HeldStep& step : held->paths[way].steps) CHECK(!step.may_be_stale);
  }
  CHECK(held->paths[2].place == variable);
  CHECK(held->paths[2].steps[0].may_be_stale);
  CHECK(held->paths[3].place == cache);
  CHECK(!held->paths[3].steps[0].may_be_stale);
  CHECK(held->paths[3].steps[1].may_be_stale);
}

TEST_CASE("of a stack of values whose end is not known, a word may be stale") {
  HandmadeHeap heap;
  const uint32_t perhaps =
      heap.add_place(RootKind::kLocal, "perhaps a temporary in main() at app.py:3", 7);
  const uint32_t local = heap.add_place(RootKind::kLocal, "a temporary in serve() at app.py:9", 7);
  const BlockNumber wanted = heap.add(56);
  const BlockNumber list = heap.add(24);
  heap.hold(perhaps, wanted);
  heap.hold(local, list);
  heap.link(list, 0, wanted);
  const SnapshotStreams streams = heap.finish();
  const auto held = explain_block(streams, heap.streams, heap.address_of(wanted), 10);
  REQUIRE(held);
  REQUIRE(held->paths.size() == 2);
  CHECK(held->paths[0].place == local);
  CHECK(!held->paths[0].steps[0].may_be_stale);
  CHECK(held->paths[1].place == perhaps);
  CHECK(held->paths[1].steps[0].may_be_stale);
}

TEST_CASE("words that a runtime has said are not stale, however few blocks have any there") {
  for (const bool is_exact : {false, true}) {
    HandmadeHeap heap;
    const TypeNumber type = heap.add_type("Hash table", TypeSource::kRuntime);
    heap.streams.types[type].is_exact = is_exact;
    const BlockNumber wanted = heap.add(1016);
    const BlockNumber table = heap.add(56, type);
    for (int i = 0; i < 100; ++i) heap.add(56, type);  // empty ones
    heap.hold(heap.add_place(RootKind::kGlobal, "Cache::STORE"), table);
    heap.link(table, 48, wanted);
    const SnapshotStreams streams = heap.finish();
    const auto held = explain_block(streams, heap.streams, heap.address_of(wanted), 10);
    REQUIRE(held);
    REQUIRE(held->paths.size() == 1);
    REQUIRE(held->paths[0].steps.size() == 2);
    CHECK(held->paths[0].steps[1].may_be_stale == !is_exact);
  }
}

TEST_CASE("a leaked block has no ways to it, but what it leads to") {
  HandmadeHeap heap;
  const BlockNumber kept = heap.add(24);
  const BlockNumber first = heap.add(40);
  const BlockNumber second = heap.add(56);
  const BlockNumber third = heap.add(72);
  heap.hold(heap.add_place(RootKind::kVariable, "g"), kept);
  heap.link(first, 0, second);
  heap.link(second, 8, third);
  heap.link(second, 16, kept);
  const SnapshotStreams streams = heap.finish();
  const auto held = explain_block(streams, heap.streams, heap.address_of(second), 5);
  REQUIRE(held);
  CHECK(held->paths.empty());
  CHECK(held->retained == Tally{2, 128});
  REQUIRE(held->sources.size() == 1);
  CHECK(held->sources[0].block.number == first);
}
