#include <doctest/doctest.h>

#include "analysis/snapshot_diff.h"
#include "handmade_references.h"
#include "named_stacks.h"

using namespace heapsnap;
using namespace heapsnap::test;

TEST_CASE("call stacks are matched by functions, whatever their addresses and tails") {
  const auto recorded_of = [](uint64_t base, const char* tail) {
    RecordedStacks recorded;
    recorded.stacks.nodes.resize(tracker::kFirstNode);
    const auto add = [&](uint32_t parent, uint64_t address, const char* name) {
      recorded.stacks.nodes.push_back({parent, 0, Address(base + address)});
      if (name != nullptr) {
        const SourceFrame frame{recorded.symbols.intern(name), 0, 0, 0, false};
        recorded.symbols.add(0, Address(base + address), std::span(&frame, 1));
      }
      return static_cast<uint32_t>(recorded.stacks.nodes.size() - 1);
    };
    const auto end = static_cast<uint32_t>(StackEnd::kComplete);
    const uint32_t start = add(end, 0x10, "_start");
    const uint32_t main = add(start, 0x20, "main");
    const uint32_t inner = add(main, 0x30, tail);
    const uint32_t again = add(inner, 0x40, "visit(int)");
    const uint32_t twice = add(again, 0x50, "visit(int) [clone .part.0]");
    const uint32_t allocator = add(twice, 0x60, "operator new(unsigned long)");
    recorded.symbols.sort();
    recorded.stacks.sites.resize(2);
    recorded.stacks.sites[1].node = allocator;
    return recorded;
  };
  TrackerRecord tracker;
  tracker.modules.push_back({.path = "/opt/server-1.2", .build_id = {}, .bias = 0, .range = {}});
  const RecordedStacks one = recorded_of(0x1000, "handle");
  const RecordedStacks other = recorded_of(0x9000, "handle");
  const RecordedStacks third = recorded_of(0x1000, "server-1.2+0x4020()");
  DiffStackNames names(one, tracker, NameScope::kSeveralBuilds);
  CHECK(names.of(1) == "visit(int) ← handle ← main");
  CHECK(names.function_of(1) == "visit(int)");
  DiffStackNames other_names(other, tracker, NameScope::kSeveralBuilds);
  CHECK(names.keys_of(1).stack == other_names.keys_of(1).stack);
  DiffStackNames third_names(third, tracker, NameScope::kSeveralBuilds);
  CHECK(third_names.of(1) == "visit(int) ← server-1.2 ← main");
  CHECK(names.keys_of(1).function == third_names.keys_of(1).function);
  CHECK(names.keys_of(1).stack != third_names.keys_of(1).stack);
  DiffStackNames within(third, tracker, NameScope::kOneBuild);
  CHECK(within.of(1) == "visit(int) ← server-1.2+0x4020() ← main");
  CHECK(within.of(0) == "a stack without frames");
  CHECK(within.of(99) == "a stack without frames");
}

TEST_CASE("what is leaked is charged past a function without a name that allocates for many") {
  constexpr int kCallers = 10;
  HandmadeHeap heap;
  NamedStacks stacks;
  for (int i = 0; i < kCallers; ++i) {
    const auto size = static_cast<uint64_t>(1000 + 16 * i);
    heap.add(size, 0, static_cast<uint32_t>(stacks.recorded.stacks.sites.size()));
    stacks.add(size, {"malloc", "git+0x70()", "caller" + std::to_string(i), "main"});
  }
  HandmadeHeap before;
  before.hold(before.add_place(RootKind::kVariable, "g_one"), before.add(24));
  SnapshotDiffBuilder builder({DiffBy::kLeak}, NameScope::kOneBuild);
  builder.add({before.finish(), &before.streams, nullptr});
  heap.snapshot.metadata.tracker = stacks.tracker;
  builder.add({heap.finish(), &heap.streams, &stacks.recorded});
  const SnapshotDiff diff = builder.finish();
  const std::vector<DiffRow>& rows = diff.section(DiffBy::kLeak)->rows;
  REQUIRE(rows.size() == kCallers);
  for (const DiffRow& row : rows) CHECK(row.name.starts_with("caller"));
}
