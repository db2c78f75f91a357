#include "analysis/map_classes.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/unit/analysis/handmade_references.h"
#include "tests/unit/analysis/tracked_snapshot.h"

using namespace heapsnap;
using heapsnap::test::HandmadeHeap;
using heapsnap::test::TrackedSnapshot;

namespace {

using ClassKind = MapClass::Kind;

MapClass class_in(const MapClasses& classes, ChunkState state, PageState page, uint64_t size = 32,
                  uint32_t stack = 0, uint64_t block = 0) {
  return classes.list()[classes.in_page(classes.of_chunk(state, size, stack, block), page)];
}

ClassKind kind_in(const MapClasses& classes, ChunkState state, PageState page) {
  return class_in(classes, state, page).kind;
}

}  // namespace

TEST_CASE("by state, swapped and absent pages count as such whatever lies in them") {
  const MapClasses classes = MapClasses::by_state();
  CHECK(kind_in(classes, ChunkState::kUsed, PageState::kResidentHuge) == ClassKind::kInUse);
  CHECK(kind_in(classes, ChunkState::kMmapped, PageState::kUnknown) == ClassKind::kInUse);
  CHECK(kind_in(classes, ChunkState::kUsed, PageState::kSwapped) == ClassKind::kSwapped);
  CHECK(kind_in(classes, ChunkState::kUnsorted, PageState::kResident) == ClassKind::kBins);
  CHECK(kind_in(classes, ChunkState::kTcache, PageState::kResident) == ClassKind::kTcache);
  CHECK(kind_in(classes, ChunkState::kTop, PageState::kAbsent) == ClassKind::kAbsent);
  CHECK(kind_in(classes, ChunkState::kUnknown, PageState::kResident) == ClassKind::kUnwalked);
}

TEST_CASE("by residency, huge pages are apart, and what nobody knows is") {
  const MapClasses classes = MapClasses::by_residency();
  CHECK(kind_in(classes, ChunkState::kUsed, PageState::kResident) == ClassKind::kInUse);
  CHECK(kind_in(classes, ChunkState::kUsed, PageState::kResidentHuge) == ClassKind::kInUseHuge);
  CHECK(kind_in(classes, ChunkState::kTop, PageState::kResidentHuge) == ClassKind::kFreeHuge);
  CHECK(kind_in(classes, ChunkState::kTop, PageState::kResidentFile) == ClassKind::kFree);
  CHECK(kind_in(classes, ChunkState::kUsed, PageState::kUnknown) == ClassKind::kUnknownPages);
}

TEST_CASE("by size, borders are powers of two, and free memory is one class") {
  const MapClasses classes = MapClasses::by_size();
  const auto begin_of = [&](uint64_t size) {
    return class_in(classes, ChunkState::kUsed, PageState::kAbsent, size).begin;
  };
  CHECK(begin_of(0) == 0);
  CHECK(begin_of(63) == 0);
  CHECK(begin_of(64) == 64);
  CHECK(begin_of(255) == 64);
  CHECK(begin_of(256) == 256);
  CHECK(begin_of(1024 * 1024 - 1) == 128 * 1024);
  CHECK(begin_of(UINT64_MAX) == 1024 * 1024);
  CHECK(kind_in(classes, ChunkState::kTcache, PageState::kResident) == ClassKind::kFree);
  CHECK(kind_in(classes, ChunkState::kTcache, PageState::kSwapped) == ClassKind::kFreeElsewhere);
}

TEST_CASE("by stack, the stacks with most bytes are apart; strange ids are of no stack") {
  TrackedSnapshot snapshot;
  snapshot.add(64, ChunkState::kUsed, 0, 0);
  for (uint32_t stack = 1; stack <= 10; ++stack) {
    snapshot.add(32 * stack, ChunkState::kUsed, stack, 0);
  }
  snapshot.add(1 << 20, ChunkState::kUsed, 4711, 0);
  snapshot.add(1 << 20, ChunkState::kTop, 5, 0);
  const MapClasses classes = MapClasses::by_stack(snapshot.tracked_streams(), 11);
  const auto of_stack = [&](uint32_t stack) {
    return class_in(classes, ChunkState::kUsed, PageState::kResident, 32, stack);
  };
  CHECK(of_stack(10) == MapClass{ClassKind::kStack, 0, 0, 10});
  CHECK(classes.list()[0].number == 10);
  CHECK(of_stack(4).kind == ClassKind::kStack);
  CHECK(of_stack(3).kind == ClassKind::kOtherStacks);
  CHECK(of_stack(0).kind == ClassKind::kNoStack);
  CHECK(of_stack(4711).kind == ClassKind::kNoStack);
  CHECK(MapClasses::by_stack(snapshot.tracked_streams(), 0).list().size() <= MapClasses::kMost);
}

TEST_CASE("by type, types of one name are one, and by leak what nothing leads to is apart") {
  HandmadeHeap heap;
  const TypeNumber session = heap.add_type("Session");
  const TypeNumber other = heap.add_type("Other");
  const TypeNumber again = heap.add_type("Session");
  heap.add(24, session);
  const BlockNumber held = heap.add(24, again);
  heap.add(40, other);
  heap.add(72, 0);
  heap.hold(heap.add_place(RootKind::kVariable, "g_held"), held);
  const SnapshotStreams streams = heap.finish();
  const auto kind_of_block = [&](const MapClasses& classes, uint64_t block) {
    return class_in(classes, ChunkState::kUsed, PageState::kResident, 32, 0, block);
  };

  const MapClasses types = MapClasses::by_type(streams, heap.streams);
  CHECK(kind_of_block(types, 0).number == session);
  CHECK(kind_of_block(types, 1).number == session);
  CHECK(kind_of_block(types, 2).number == other);
  CHECK(kind_of_block(types, 3).kind == ClassKind::kUnknownType);
  CHECK(kind_of_block(types, 99).kind == ClassKind::kUnknownType);

  const MapClasses leaks = MapClasses::by_leak(streams, heap.streams);
  CHECK(kind_of_block(leaks, 0).kind == ClassKind::kLeaked);
  CHECK(kind_of_block(leaks, 1).kind == ClassKind::kInUse);

  heap.snapshot.metadata.references.emplace().blocks = 5;
  CHECK_THROWS_AS(MapClasses::by_type(streams, heap.streams), Error);
}
