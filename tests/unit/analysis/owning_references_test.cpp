// Which references own is seen in the tree of owners.
#include "analysis/owning_references.h"

#include <doctest/doctest.h>

#include "analysis/owner_tree.h"
#include "handmade_references.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

Tally retained_by(const OwnerTree& tree, uint32_t place) {
  for (const OwnerNode& node : tree.nodes) {
    if (node.kind == OwnerNode::Kind::kPlace && node.place == place) return node.retained;
  }
  return {};
}

}  // namespace

TEST_CASE("a class is the variable's that has its name, not that of its instances") {
  for (const bool has_name : {true, false}) {
    CAPTURE(has_name);
    HandmadeHeap heap;
    const TypeNumber classes = heap.add_type("type", TypeSource::kRuntime);
    heap.streams.types.back().part = kClassPart;
    const TypeNumber queues = heap.add_type("JobQueue", TypeSource::kRuntime);
    const uint32_t name = heap.add_place(RootKind::kGlobal, "__main__.JobQueue");
    const uint32_t queue = heap.add_place(RootKind::kGlobal, "__main__.queue");
    const BlockNumber class_object = heap.add(1064, classes);
    if (has_name) heap.hold(name, class_object);
    const BlockNumber finished = heap.add(4008);
    heap.link(class_object, 264, finished);
    const BlockNumber instance = heap.add(48, queues);
    heap.hold(queue, instance);
    heap.link(instance, 24, class_object);
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    const Tally whole{2, 1064 + 4008};
    CHECK(retained_by(tree, name) == (has_name ? whole : Tally{}));
    // Nobody else leads to the class: then its instance does.
    CHECK(retained_by(tree, queue) == (has_name ? Tally{1, 48} : Tally{3, whole.bytes + 48}));
  }
}

TEST_CASE("what a memory context's words lead to is a library's where that leads to it, too") {
  for (const bool is_held : {true, false}) {
    CAPTURE(is_held);
    HandmadeHeap heap;
    const TypeNumber contexts = heap.add_type("Timezones (context block)", TypeSource::kRuntime);
    heap.streams.types.back().part = kContextPart;
    const uint32_t zones = heap.add_place(RootKind::kGlobal, "memory context Timezones");
    const uint32_t library = heap.add_place(RootKind::kVariable, "g_names");
    const BlockNumber context = heap.add(8200, contexts);
    heap.hold(zones, context);
    const BlockNumber second = heap.add(95928, contexts);
    heap.link(context, 0xd8, second);
    const BlockNumber table = heap.add(56);
    heap.link(second, 0x11410, table);
    const BlockNumber names = heap.add(32776);
    heap.link(table, 0, names);
    if (is_held) heap.hold(library, table);
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    const Tally of_table{2, 56 + 32776};
    const Tally of_context{2, 8200 + 95928};
    CHECK(retained_by(tree, library) == (is_held ? of_table : Tally{}));
    CHECK(retained_by(tree, zones) ==
          (is_held ? of_context : Tally{4, of_context.bytes + of_table.bytes}));
  }
}

TEST_CASE("words that may be stale take nothing from those that lead past a block's first byte") {
  for (const bool is_led_to : {true, false}) {
    CAPTURE(is_led_to);
    HandmadeHeap heap;
    const uint32_t database = heap.add_place(RootKind::kGlobal, "__main__.DB");
    const uint32_t numbers = heap.add_place(RootKind::kGlobal, "__main__.NUMBERS");
    const BlockNumber connection = heap.add(240);
    heap.hold(database, connection);
    const BlockNumber pager = heap.add(856);
    if (is_led_to) heap.link(connection, 0x20, pager, true);
    const BlockNumber page = heap.add(4376);
    heap.link(pager, 0x2c0, page, true);
    const BlockNumber list = heap.add(808);
    heap.hold(numbers, list);
    Tally of_numbers{101, 808 + 100 * 104};
    for (unsigned i = 0; i < 100; ++i) {
      const BlockNumber number = heap.add(104);
      heap.link(list, 8 * i, number);
      if (i % 40 == 7) heap.link(number, 0x50, i == 7 ? pager : page, true);
    }
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    const Tally pages{2, 856 + 4376};
    // Where nothing else leads there, they count.
    if (!is_led_to) of_numbers = {of_numbers.count + pages.count, of_numbers.bytes + pages.bytes};
    CHECK(retained_by(tree, numbers) == of_numbers);
    CHECK(retained_by(tree, database) == (is_led_to ? Tally{3, 240 + pages.bytes} : Tally{1, 240}));
  }
}

// In a program in C++ main() has a list, and an observer a pointer into one of its nodes. An
// interpreter has the handle of a database on its stack, whose pointer leads past its first byte.
TEST_CASE("words of stacks own as variables do, but for those of interpreters") {
  for (const bool is_interpreter : {false, true}) {
    CAPTURE(is_interpreter);
    HandmadeHeap heap;
    const uint32_t frame = heap.add_place(RootKind::kStack, "run", 1);
    const RootKind kind = is_interpreter ? RootKind::kGlobal : RootKind::kVariable;
    const uint32_t variable = heap.add_place(kind, "observer");
    const BlockNumber observer = heap.add(136);
    heap.hold(variable, observer);
    const BlockNumber first = heap.add(56);
    const BlockNumber second = heap.add(56);
    heap.hold(frame, first);
    heap.link(first, 0, second);
    heap.link(second, 8, first);
    heap.link(observer, 0, first, true);
    const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
    CHECK(retained_by(tree, frame) == (is_interpreter ? Tally{} : Tally{2, 112}));
    CHECK(retained_by(tree, variable) == (is_interpreter ? Tally{3, 248} : Tally{1, 136}));
  }
}

TEST_CASE("what only a word past a block's first byte leads to takes nothing from a variable") {
  HandmadeHeap heap;
  const uint32_t requests = heap.add_place(RootKind::kVariable, "g_requests");
  const uint32_t loader = heap.add_place(RootKind::kVariable, "_rtld_global");
  const BlockNumber map = heap.add(1320);
  heap.hold(loader, map);
  const BlockNumber left_over = heap.add(72);
  heap.link(map, 0x2d8, left_over, true);
  const BlockNumber array = heap.add(520);
  heap.hold(requests, array);
  heap.link(left_over, 0x38, array);
  const BlockNumber only_there = heap.add(40);
  heap.link(left_over, 0x40, only_there);
  const OwnerTree tree = make_owner_tree(heap.finish(), heap.streams);
  CHECK(retained_by(tree, requests) == Tally{1, 520});
  CHECK(retained_by(tree, loader) == Tally{3, 1320 + 72 + 40});
}
