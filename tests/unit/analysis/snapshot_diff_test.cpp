#include "analysis/snapshot_diff.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "handmade_references.h"
#include "references/container_storage.h"
#include "tracked_snapshot.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr int64_t kSecond = 1'000'000'000;

// A snapshot in which each variable holds so many blocks of a type.
struct Held {
  const char* variable;
  const char* type;  // null: unknown
  int blocks;
};

std::unique_ptr<HandmadeHeap> heap_with(std::vector<Held> held, int64_t time_s,
                                        const char* build = "aa") {
  auto heap = std::make_unique<HandmadeHeap>();
  Process& process = heap->snapshot.metadata.process;
  process.taken_at_ns = time_s * kSecond;
  process.build_id = build;
  for (const Held& each : held) {
    const uint32_t place = heap->add_place(RootKind::kVariable, each.variable);
    heap->streams.places[place].module = process.exe;
    const TypeNumber type = each.type == nullptr ? 0 : heap->add_type(each.type);
    const BlockNumber table = heap->add(1016);
    heap->hold(place, table);
    for (int i = 0; i < each.blocks; ++i) {
      heap->link(table, static_cast<uint32_t>(8 * i), heap->add(40, type));
    }
  }
  return heap;
}

SnapshotDiff diff_of(const std::vector<std::unique_ptr<HandmadeHeap>>& heaps) {
  std::vector<Process> processes;
  for (const auto& heap : heaps) processes.push_back(heap->snapshot.metadata.process);
  SnapshotDiffBuilder builder({DiffBy::kOwner, DiffBy::kType, DiffBy::kStack, DiffBy::kLeak,
                               DiffBy::kSize, DiffBy::kArena, DiffBy::kAccount},
                              scope_of(processes));
  for (const auto& heap : heaps) builder.add({heap->finish(), &heap->streams, nullptr});
  return builder.finish();
}

std::vector<std::string> names_of(const SnapshotDiff& diff, DiffBy by) {
  const DiffSection* const section = diff.section(by);
  REQUIRE(section != nullptr);
  std::vector<std::string> names;
  for (const uint32_t row : section->ranked) names.push_back(section->rows[row].name);
  return names;
}

const DiffRow& row_of(const SnapshotDiff& diff, DiffBy by, const std::string& name) {
  const DiffSection& section = *diff.section(by);
  const auto row = std::find_if(section.rows.begin(), section.rows.end(),
                                [&](const DiffRow& each) { return each.name == name; });
  REQUIRE(row != section.rows.end());
  return *row;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("memory contexts are compared by name, wherever they are") {
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  std::vector<Process> processes;
  const auto context = [](const char* name, uint64_t bytes) {
    RuntimeContext made;
    made.name = name;
    made.bytes = bytes;
    return made;
  };
  for (int i = 0; i < 3; ++i) {
    heaps.push_back(heap_with({}, 10 + i));
    processes.push_back(heaps.back()->snapshot.metadata.process);
    if (i == 2) continue;  // of this one no contexts were read
    RuntimeModel& model = heaps.back()->snapshot.metadata.runtimes;
    model.runtimes.resize(1);
    model.runtimes[0].kind = RuntimeKind::kPostgres;
    model.contexts = {context("TopMemoryContext", 4096), context("index info", 1000)};
    if (i == 1) model.contexts.push_back(context("index info", 2000));
  }
  SnapshotDiffBuilder builder({DiffBy::kContext}, scope_of(processes));
  for (const auto& heap : heaps) builder.add({heap->finish(), &heap->streams, nullptr});
  const SnapshotDiff diff = builder.finish();
  const DiffSection& section = *diff.section(DiffBy::kContext);
  CHECK(section.lacks ==
        std::vector<DiffLack>{DiffLack::kNone, DiffLack::kNone, DiffLack::kContexts});
  CHECK(names_of(diff, DiffBy::kContext) == Names{"index info"});
  const DiffRow& row = row_of(diff, DiffBy::kContext, "index info");
  CHECK(row.growth == 2000);
  CHECK(row.more_blocks == 1);
  CHECK(section.unchanged == 1);
  CHECK(section.total.growth == 2000);
}

TEST_CASE("objects of a language runtime are compared by class") {
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  for (uint64_t i = 0; i < 4; ++i) {
    heaps.push_back(heap_with({}, static_cast<int64_t>(10 + i)));
    if (i == 1) continue;  // of this one no runtime was read
    RuntimeModel& model = heaps.back()->snapshot.metadata.runtimes;
    model.runtimes.resize(1);
    model.runtimes[0].kind = RuntimeKind::kPython;
    model.classes = {{0, "Order", 100 * i, 0, 1000 * i, 500 * i, 0}, {0, "int", 7, 0, 70, 0, 0}};
  }
  std::vector<Process> processes;
  for (const auto& heap : heaps) processes.push_back(heap->snapshot.metadata.process);
  SnapshotDiffBuilder builder({DiffBy::kClass}, scope_of(processes));
  for (const auto& heap : heaps) builder.add({heap->finish(), &heap->streams, nullptr});
  const SnapshotDiff diff = builder.finish();
  const DiffSection& section = *diff.section(DiffBy::kClass);
  CHECK(section.lacks[0] == DiffLack::kNone);
  CHECK(section.lacks[1] == DiffLack::kObjects);
  CHECK(names_of(diff, DiffBy::kClass) == Names{"Order"});
  const DiffRow& row = row_of(diff, DiffBy::kClass, "Order");
  CHECK(row.growth == 4500);
  CHECK(row.more_blocks == 300);
  CHECK(row.only_grows);
  CHECK(section.total.growth == 4500);
}

TEST_CASE("what no owner holds is not in the total of the owners") {
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  for (const int i : {0, 1}) {
    heaps.push_back(heap_with({{"g_same", "Same", 50}}, 10 + i));
    HandmadeHeap& heap = *heaps.back();
    heap.add(4984);                                                   // leaked
    const BlockNumber slots = 10 + 90 * static_cast<BlockNumber>(i);  // garbage
    for (BlockNumber slot = 0; slot < slots; ++slot) heap.add(40);
    heap.slots = slots;
  }
  const SnapshotDiff diff = diff_of(heaps);
  CHECK(diff.section(DiffBy::kOwner)->total.growth == 0);
}

TEST_CASE("what several roots lead to is below the one that leads to most of it") {
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  for (const int i : {1, 2}) {
    heaps.push_back(heap_with({{"g_users", "User", 50}, {"g_names", "Name", 0}}, i));
    HandmadeHeap& heap = *heaps.back();
    const TypeNumber type = heap.add_type("Shared");
    for (int block = 0; block < 10 * i; ++block) {
      const BlockNumber shared = heap.add(104, type);
      heap.hold(0, shared);
      heap.hold(1, shared);
    }
    // Of another group, which stays as it is.
    const BlockNumber other = heap.add(56);
    for (const char* const name : {"g_left", "g_right"}) {
      heap.hold(heap.add_place(RootKind::kVariable, name), other);
    }
  }
  const SnapshotDiff diff = diff_of(heaps);
  CHECK(names_of(diff, DiffBy::kOwner) == Names{"several roots together"});
  const DiffSection& section = *diff.section(DiffBy::kOwner);
  const DiffRow& several = row_of(diff, DiffBy::kOwner, "several roots together");
  CHECK(several.growth == 1040);
  REQUIRE(several.held.size() == 1);
  const DiffRow& group = section.rows[several.held.front()];
  CHECK(group.name == "g_users and others");
  CHECK(group.growth == 1040);
  REQUIRE(group.held.size() == 1);
  CHECK(section.rows[group.held.front()].name == "Shared");
}

TEST_CASE("what only grows comes first, by its slope, and what grew more after it") {
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  constexpr int kJumps[] = {5, 60, 20, 100};
  for (int i = 0; i < 4; ++i) {
    heaps.push_back(heap_with({{"g_jumps", "Jump", kJumps[i]},
                               {"g_slow", "Slow", 10 + 5 * i},
                               {"g_fast", "Fast", 10 + 10 * i},
                               {"g_same", "Same", 50},
                               {"g_shrinks", "Shrunk", 40 - 10 * i}},
                              10 + i));
  }
  const SnapshotDiff diff = diff_of(heaps);
  CHECK(diff.is_one_process);
  CHECK(diff.is_in_time);
  CHECK(names_of(diff, DiffBy::kOwner) == Names{"g_fast", "g_slow", "g_jumps", "g_shrinks"});
  CHECK(names_of(diff, DiffBy::kType) == Names{"Fast", "Slow", "Jump", "Shrunk"});
  const DiffRow& fast = row_of(diff, DiffBy::kOwner, "g_fast");
  CHECK(fast.only_grows);
  CHECK(fast.steps_up == 3);
  CHECK(fast.growth == 30 * 40);
  CHECK(fast.more_blocks == 30);
  REQUIRE(fast.slope);
  CHECK(fast.slope->per_second == doctest::Approx(400));
  CHECK(fast.per_step == doctest::Approx(400));
  const DiffSection& owners = *diff.section(DiffBy::kOwner);
  CHECK(owners.unchanged == 1);
  CHECK(owners.total.growth == (95 + 15 + 30 - 30) * 40);
  // Its table stays the same: what is in it is below it.
  REQUIRE(fast.held.size() == 1);
  const DiffRow& table = owners.rows[fast.held.front()];
  CHECK(table.name == "arrays of references");
  CHECK(table.sizes.least == 1016);
  CHECK(table.sizes.most == 1016);
  CHECK(fast.sizes.most == 0);
  REQUIRE(table.held.size() == 1);
  CHECK(owners.rows[table.held.front()].name == "Fast");
  CHECK(owners.rows[table.held.front()].sizes.most == 0);
  CHECK(owners.rows[table.held.front()].growth == 30 * 40);
  CHECK(diff.in_use.growth == owners.total.growth);
  CHECK(!diff.section(DiffBy::kStack)->is_comparable());
  CHECK(diff.section(DiffBy::kStack)->lacks.front() == DiffLack::kStacks);
}

TEST_CASE("what is held grows with what holds it while a hash map outgrows its like") {
  // Its nodes are few among blocks of their size at first, and many of them later.
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  for (const uint32_t nodes : {10U, 110U}) {
    heaps.push_back(heap_with({}, static_cast<int64_t>(nodes)));
    HandmadeHeap& heap = *heaps.back();
    const TypeNumber node =
        heap.add_type(to_string(StorageKind::kHashNode), TypeSource::kStructure);
    const uint32_t visits = heap.add_place(RootKind::kVariable, "g_visits");
    const uint32_t buffers = heap.add_place(RootKind::kVariable, "g_buffers");
    for (const uint32_t place : {visits, buffers}) {
      heap.streams.places[place].module = heap.snapshot.metadata.process.exe;
    }
    const BlockNumber buckets = heap.add(1016);
    heap.hold(visits, buckets);
    for (uint32_t i = 0; i < nodes; ++i) {
      const BlockNumber added = heap.add(40, node);
      if (i == 0) {
        heap.hold(visits, added, 0x10);
      } else {
        heap.link(buckets, 8 * i, added - 1);
        heap.link(added - 1, 0, added);
      }
    }
    for (uint32_t i = 0; i < 100; ++i) heap.hold(buffers, heap.add(40), 8 * uint64_t{i});
  }
  const SnapshotDiff diff = diff_of(heaps);
  CHECK(names_of(diff, DiffBy::kOwner) == Names{"g_visits"});
  const DiffRow& visits = row_of(diff, DiffBy::kOwner, "g_visits");
  CHECK(visits.growth == 100 * 40);
  CHECK(visits.more_blocks == 100);
  REQUIRE(visits.held.size() == 1);
  const DiffRow& nodes = diff.section(DiffBy::kOwner)->rows[visits.held.front()];
  CHECK(nodes.growth == 100 * 40);
  CHECK(nodes.more_blocks == 100);
}

TEST_CASE("what shrank comes last, what shrank most before the rest of it") {
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  constexpr int kBlocks[3][4] = {{50, 10, 20, 90}, {40, 10, 26, 20}, {45, 9, 25, 10}};
  for (int i = 0; i < 3; ++i) {
    const int* const blocks = kBlocks[i];
    heaps.push_back(heap_with({{"g_less", nullptr, blocks[0]},
                               {"g_least", nullptr, blocks[1]},
                               {"g_more", nullptr, blocks[2]},
                               {"g_gone", nullptr, blocks[3]}},
                              i));
  }
  CHECK(names_of(diff_of(heaps), DiffBy::kOwner) == Names{"g_more", "g_gone", "g_less", "g_least"});
}

TEST_CASE("a staircase of no weight does not come before what matters") {
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  constexpr int kLarge[] = {0, 121, 110, 120};
  for (int i = 0; i < 4; ++i) {
    heaps.push_back(
        heap_with({{"g_tiny", nullptr, 1 + i / 3}, {"g_large", nullptr, kLarge[i]}}, i));
  }
  // One block in one of three steps is no staircase, either.
  CHECK(!row_of(diff_of(heaps), DiffBy::kOwner, "g_tiny").only_grows);
  heaps.clear();
  for (int i = 0; i < 3; ++i) {
    const int large[] = {0, 121, 120};
    auto heap = heap_with({{"g_large", nullptr, large[i]}}, i);
    const uint32_t tiny = heap->add_place(RootKind::kVariable, "g_tiny");
    heap->streams.places[tiny].module = "/opt/handmade";
    heap->hold(tiny, heap->add(24 + 16 * static_cast<uint64_t>(i)));
    heaps.push_back(std::move(heap));
  }
  const SnapshotDiff diff = diff_of(heaps);
  CHECK(row_of(diff, DiffBy::kOwner, "g_tiny").only_grows);
  CHECK(names_of(diff, DiffBy::kOwner) == Names{"g_large", "g_tiny"});
}

TEST_CASE("a cache that was filled at first is no staircase") {
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  constexpr int kFilled[] = {10, 60, 100, 100, 100};
  for (int i = 0; i < 5; ++i) heaps.push_back(heap_with({{"g_cache", "Item", kFilled[i]}}, i));
  const SnapshotDiff diff = diff_of(heaps);
  CHECK(row_of(diff, DiffBy::kType, "Item").steps_up == 2);
  CHECK(!row_of(diff, DiffBy::kType, "Item").only_grows);
}

TEST_CASE("names match across builds: addresses, numbers and threads differ") {
  const auto program = [](bool is_rebuilt) {
    auto heap = heap_with({{"g_cache", "Item", is_rebuilt ? 20 : 10}}, is_rebuilt ? 2 : 1,
                          is_rebuilt ? "bb" : "aa");
    SnapshotMetadata& metadata = heap->snapshot.metadata;
    metadata.process.exe = is_rebuilt ? "/opt/2/handmade" : "/opt/1/handmade (deleted)";
    metadata.process.pid = is_rebuilt ? 7 : 6;
    for (RootPlace& place : heap->streams.places) {
      place.module = is_rebuilt ? "/opt/2/handmade" : "/opt/1/handmade";
    }
    metadata.threads.push_back({.tid = is_rebuilt ? 71 : 61, .name = "worker", .registers = {}});
    const auto hold = [&](RootKind kind, const char* name, const char* module, uint64_t offset) {
      const uint32_t place = heap->add_place(kind, name, metadata.threads.front().tid);
      heap->streams.places[place].module = module;
      heap->streams.places[place].module_offset = offset;
      heap->hold(place, heap->add(is_rebuilt ? 232 : 104));
    };
    const std::string exe = is_rebuilt ? "/opt/2/handmade" : "/opt/1/handmade";
    hold(RootKind::kVariable, "", exe.c_str(), is_rebuilt ? 0x5000 : 0x4000);
    hold(RootKind::kVariable, "g_pool", is_rebuilt ? "/lib/libp.so.1.3" : "/lib/libp.so.1.2", 0);
    hold(RootKind::kVariable, is_rebuilt ? "buffer.12" : "buffer.7", exe.c_str(), 0);
    hold(RootKind::kThreadLocal, "t_own", exe.c_str(), 0);
    hold(RootKind::kStack, is_rebuilt ? "run() [clone .part.0]" : "run()", exe.c_str(), 0);
    hold(RootKind::kMapping, "", "", 0);
    return heap;
  };
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  heaps.push_back(program(false));
  heaps.push_back(program(true));
  const SnapshotDiff diff = diff_of(heaps);
  CHECK(!diff.is_one_process);
  CHECK(!diff.is_one_build);
  Names names = names_of(diff, DiffBy::kOwner);
  std::sort(names.begin(), names.end());
  CHECK(names == Names{"anonymous memory", "buffer", "g_cache", "g_pool in libp.so",
                       "t_own, thread-local of worker", "variables without a name in the program",
                       "worker, in run()"});
  for (const std::string& name : names) {
    const DiffRow& row = row_of(diff, DiffBy::kOwner, name);
    CHECK(row.growth == (name == "g_cache" ? 400 : 128));
    CHECK(!row.only_grows);  // one step is no staircase
  }
}

TEST_CASE("a global of an interpreted program has no module") {
  SnapshotMetadata metadata;
  metadata.process.exe = "/usr/bin/ruby3.1";
  RootPlace place;
  place.kind = RootKind::kGlobal;
  place.module = "/usr/lib/libruby-3.1.so.3.1.2";
  place.name = "KEPT";
  CHECK(RootNames(metadata, NameScope::kOneBuild).of(place) == "KEPT");
  place.kind = RootKind::kVariable;
  CHECK(RootNames(metadata, NameScope::kOneBuild).of(place) == "KEPT in libruby-3.1.so");
  // The function may be elsewhere in itself by now.
  place.kind = RootKind::kLocal;
  place.name = "orders in handle() at app.py:42";
  CHECK(RootNames(metadata, NameScope::kOneBuild).of(place) == "orders in handle() at app.py");
}

TEST_CASE("within one build, what has no name goes by its place in the file") {
  SnapshotMetadata metadata;
  metadata.process.exe = "/opt/handmade";
  RootPlace place;
  place.kind = RootKind::kVariable;
  place.module = "/opt/handmade";
  place.module_offset = 0x4010;
  CHECK(RootNames(metadata, NameScope::kOneBuild).of(place) == "handmade+0x4010");
  CHECK(RootNames(metadata, NameScope::kSeveralBuilds).of(place) ==
        "variables without a name in the program");
  // Of several words, where the last one is, but not in the name that is looked for.
  place.size = 0x30;
  CHECK(RootNames(metadata, NameScope::kOneBuild).of(place) == "handmade+0x4010");
  CHECK(RootNames(metadata, NameScope::kOneBuild).shown(place) == "handmade+0x4010 to +0x4038");
  CHECK(RootNames(metadata, NameScope::kSeveralBuilds).shown(place) ==
        "variables without a name in the program");
  place.size = 8;
  CHECK(RootNames(metadata, NameScope::kOneBuild).shown(place) == "handmade+0x4010");
  place.name = "count.0";
  CHECK(RootNames(metadata, NameScope::kOneBuild).of(place) == "count.0");
  CHECK(RootNames(metadata, NameScope::kSeveralBuilds).of(place) == "count");
  place.module = "/lib/libfoo.so.6.0.30";
  CHECK(RootNames(metadata, NameScope::kSeveralBuilds).of(place) == "count in libfoo.so");
}

TEST_CASE("a thread that is called as its process is the program's, whatever that is called") {
  SnapshotMetadata metadata;
  metadata.process.pid = 7;
  metadata.process.comm = "app-1.2";
  metadata.threads = {{7, "app-1.2", {}}, {8, "app-1.2", {}}, {9, "worker", {}}};
  RootPlace place;
  place.kind = RootKind::kStack;
  place.name = "serve";
  const auto name = [&](NameScope scope, int32_t tid) {
    place.tid = tid;
    return RootNames(metadata, scope).of(place);
  };
  for (const int32_t tid : {7, 8}) {
    CHECK(name(NameScope::kSeveralBuilds, tid) == "the program, in serve");
    CHECK(name(NameScope::kOneBuild, tid) == "app-1.2, in serve");
  }
  CHECK(name(NameScope::kSeveralBuilds, 9) == "worker, in serve");
}

TEST_CASE("threads have no names where one of the snapshots does not have them") {
  SnapshotMetadata live;
  live.process.pid = 41;
  live.process.comm = "server";
  live.threads = {{41, "server", {}}, {42, "worker", {}}};
  SnapshotMetadata core = live;
  for (Thread& thread : core.threads) thread.name.clear();
  CHECK(thread_names_of(live) == ThreadNames::kKnown);
  CHECK(thread_names_of(core) == ThreadNames::kUnknown);
  RootPlace place;
  place.kind = RootKind::kRegister;
  for (const SnapshotMetadata& each : {live, core}) {
    const RootNames names(each, NameScope::kOneBuild, ThreadNames::kUnknown);
    place.tid = 41;
    CHECK(names.of(place) == "server, in registers");
    place.tid = 42;
    CHECK(names.of(place) == "a thread, in registers");
  }
  CHECK(RootNames(live, NameScope::kOneBuild).of(place) == "worker, in registers");
}

TEST_CASE("snapshots that do not say it are passed over, and the rest is compared") {
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  for (int i = 0; i < 4; ++i) heaps.push_back(heap_with({{"g_cache", "Item", 10 + 10 * i}}, i));
  SnapshotDiffBuilder builder({DiffBy::kType, DiffBy::kSize}, NameScope::kOneBuild);
  for (int i = 0; i < 4; ++i) {
    builder.add({heaps[i]->finish(), i == 1 ? nullptr : &heaps[i]->streams, nullptr});
  }
  const SnapshotDiff diff = builder.finish();
  CHECK(diff.section(DiffBy::kOwner) == nullptr);
  const DiffSection& types = *diff.section(DiffBy::kType);
  CHECK(types.steps == 2);
  CHECK(types.lacks ==
        std::vector{DiffLack::kNone, DiffLack::kReferences, DiffLack::kNone, DiffLack::kNone});
  const DiffRow& item = row_of(diff, DiffBy::kType, "Item");
  CHECK(!item.values[1]);
  CHECK(item.only_grows);
  CHECK(item.growth == 30 * 40);
  CHECK(diff.snapshots[1].why_no_references == "it was taken without them");
  CHECK(row_of(diff, DiffBy::kSize, "48 B").steps_up == 3);
}

TEST_CASE("snapshots in another order than they were taken have no rate over time") {
  std::vector<std::unique_ptr<HandmadeHeap>> heaps;
  for (int i = 0; i < 3; ++i) heaps.push_back(heap_with({{"g_cache", "Item", 10 + 10 * i}}, 9 - i));
  const SnapshotDiff diff = diff_of(heaps);
  CHECK(!diff.is_in_time);
  const DiffRow& item = row_of(diff, DiffBy::kType, "Item");
  CHECK(!item.slope);
  CHECK(item.per_step == doctest::Approx(400));
  CHECK(item.only_grows);
}

TEST_CASE("what samples stand for is counted once") {
  SnapshotDiffBuilder builder({DiffBy::kStack}, NameScope::kOneBuild);
  for (const int blocks : {1, 3}) {
    TrackedSnapshot tracked;
    tracked.metadata.tracker.emplace();
    RecordedStacks recorded;
    recorded.stacks.nodes.resize(tracker::kFirstNode);
    recorded.stacks.sites.resize(tracker::kFirstStack);
    AllocationSite site;
    site.sample_bytes = 1000;
    recorded.stacks.sites.push_back(site);
    for (int i = 0; i < 600 * blocks; ++i) {
      tracked.add(1008, ChunkState::kUsed, i % 3 == 0 ? tracker::kNoStack : tracker::kFirstStack,
                  0);
    }
    builder.add({tracked.tracked_streams(), nullptr, &recorded});
  }
  const SnapshotDiff diff = builder.finish();
  CHECK(diff.in_use.growth == 1200 * 1000);
  const DiffSection& stacks = *diff.section(DiffBy::kStack);
  CHECK(stacks.total.growth == doctest::Approx(1266 * 1000).epsilon(0.01));
  CHECK(names_of(diff, DiffBy::kStack) == Names{"a stack without frames"});
}
