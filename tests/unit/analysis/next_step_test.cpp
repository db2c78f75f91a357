#include "analysis/next_step.h"

#include <doctest/doctest.h>

#include "tests/unit/byte_units.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// A process of which 40 MiB are in use, and what can be changed about it.
struct State {
  SnapshotMetadata metadata;
  RssAccount account;
  std::vector<Advice> advice;
  std::vector<MappingGroup> other_memory;
  StackCensus census;
  CallStacks stacks;
  bool runs = true;
  bool is_whole_report = false;

  State() {
    metadata.process.pid = 42;
    metadata.process.exe = "/opt/server";
    metadata.heap.instances.resize(1);
    metadata.heap.instances[0].module = "/lib/libc.so.6";
    metadata.heap.segments.resize(1);
    account[RssRow::kProgram].resident = 40 * kMiB;
    stacks.sites.resize(3);
  }
  void track(double live_bytes) {
    metadata.tracker.emplace().recording = true;
    census.live_bytes = live_bytes;
  }
  void set(RssRow row, uint64_t bytes) { account[row].resident = bytes; }

  NextStep next() const {
    NextStepFacts facts{metadata, account, advice, other_memory};
    if (metadata.tracker) {
      facts.census = &census;
      facts.stacks = &stacks;
    }
    facts.process_runs = runs;
    facts.is_whole_report = is_whole_report;
    return next_step(facts);
  }
  NextAction action() const { return next().action; }
};

}  // namespace

TEST_CASE("memory in use leads to call stacks, and to how to get them") {
  State state;
  CHECK(state.next() == NextStep{NextSubject::kInUse, NextAction::kTrack, 40 * kMiB, {}});
  SUBCASE("of a process that is gone") {
    state.runs = false;
    CHECK(state.action() == NextAction::kReport);
    state.is_whole_report = true;
    CHECK(state.action() == NextAction::kTrackNextRun);
    state.metadata.process.exe.clear();
    CHECK(state.action() == NextAction::kExport);
  }
  SUBCASE("of a static program, which no tracker can be put into") {
    state.metadata.heap.instances[0].module = "/opt/server";
    CHECK(state.action() == NextAction::kReport);
    state.is_whole_report = true;
    CHECK(state.action() == NextAction::kExport);
  }
  SUBCASE("of a machine that the tracker is not for") {
    state.metadata.process.machine = Machine::kAarch64;
    CHECK(state.action() == NextAction::kReport);
  }
  SUBCASE("of a tracked process") {
    state.track(1000);
    CHECK(state.action() == NextAction::kStacks);
    state.runs = false;
    CHECK(state.action() == NextAction::kStacks);
  }
  SUBCASE("of one that was tracked a moment ago") {
    state.track(0);
    CHECK(state.action() == NextAction::kStacksLater);
    state.metadata.tracker->recording = false;
    CHECK(state.action() == NextAction::kReport);
  }
  SUBCASE("of one that keeps nothing of what it allocates") {
    state.track(0);
    state.stacks.sites[2].freed_bytes = 16 * kMiB;
    CHECK(state.action() == NextAction::kChurn);
  }
}

TEST_CASE("free memory leads to a trim where that gives it back, else to what stays between it") {
  State state;
  state.set(RssRow::kBins, 50 * kMiB);
  CHECK(state.next() == NextStep{NextSubject::kFree, NextAction::kTrack, 50 * kMiB, {}});
  Advice trim;
  trim.kind = AdviceKind::kTrim;
  trim.saves_most = 40 * kMiB;
  state.advice = {trim};
  CHECK(state.action() == NextAction::kTrack);  // not known whether it saves anything
  state.advice[0].saves_least = 24 * kMiB;
  CHECK(state.action() == NextAction::kTrack);  // most of it stays
  state.advice[0].saves_least = 40 * kMiB;
  CHECK(state.action() == NextAction::kTrim);
  state.runs = false;
  CHECK(state.action() == NextAction::kReport);
  // What lies between it is known already, though not who allocated it.
  state.metadata.references.emplace();
  CHECK(state.action() == NextAction::kOwners);
  state.track(1000);
  CHECK(state.action() == NextAction::kStacks);
}

TEST_CASE("memory that is not malloc's leads to who manages it") {
  State state;
  state.set(RssRow::kOtherAnonymous, 50 * kMiB);
  CHECK(state.next() == NextStep{NextSubject::kOtherMemory, NextAction::kWhoMaps, 50 * kMiB, {}});
  MappingGroup group;
  group.evidence = "libfoo.so";
  for (const auto& [kind, action] : {std::pair(MappingKind::kPython, NextAction::kPythonObjects),
                                     std::pair(MappingKind::kRuby, NextAction::kRubyObjects),
                                     std::pair(MappingKind::kV8, NextAction::kV8Objects),
                                     std::pair(MappingKind::kJava, NextAction::kJavaObjects),
                                     std::pair(MappingKind::kSameSize, NextAction::kWhoMaps)}) {
    group.kind = kind;
    state.other_memory = {group};
    CHECK(state.action() == action);
    CHECK(state.next().name == (action == NextAction::kWhoMaps ? "" : "libfoo.so"));
  }
  state.runs = false;
  CHECK(state.action() == NextAction::kReport);
  state.is_whole_report = true;
  CHECK(state.action() == NextAction::kJson);
}

TEST_CASE("contexts of a server that are in the snapshot count as objects") {
  State state;
  state.metadata.runtimes.runtimes.resize(1);
  state.metadata.runtimes.runtimes[0].kind = RuntimeKind::kPostgres;
  CHECK_FALSE(state.next().has_objects);
  state.metadata.runtimes.contexts.resize(1);
  CHECK(state.next().has_objects);
}

TEST_CASE("a language runtime's memory leads to its objects") {
  State state;
  state.metadata.runtimes.runtimes.resize(1);
  state.metadata.runtimes.runtimes[0].kind = RuntimeKind::kPython;
  state.metadata.runtimes.classes.resize(1);
  state.set(RssRow::kPythonObjects, 30 * kMiB);
  CHECK(state.next().subject == NextSubject::kInUse);
  CHECK(state.next().has_objects);
  state.metadata.runtimes.classes[0].malloc_bytes = 5 * kMiB;  // of the 40 MiB in use
  CHECK(state.next() == NextStep{NextSubject::kRuntime, NextAction::kObjects, 35 * kMiB, "Python"});
  state.metadata.runtimes.classes[0].malloc_bytes = 0;
  state.set(RssRow::kPythonPools, 8 * kMiB);
  state.set(RssRow::kPythonArenas, 2 * kMiB);
  NextStep expected{NextSubject::kRuntime, NextAction::kObjects, 40 * kMiB, "Python"};
  expected.free_bytes = 10 * kMiB;
  CHECK(state.next() == expected);
}

TEST_CASE("little memory leads to its counters, or to the churn that they show") {
  State state;
  state.set(RssRow::kProgram, kMiB - 1);
  state.set(RssRow::kFiles, 500 * kMiB);
  CHECK(state.next() == NextStep{NextSubject::kLittle, NextAction::kTrackAndWatch, kMiB - 1, {}});
  state.track(1000);
  CHECK(state.action() == NextAction::kWatch);
  state.stacks.sites[2].freed_bytes = 16 * kMiB - 1;
  CHECK(state.action() == NextAction::kWatch);
  state.stacks.sites[2].freed_bytes = 16 * kMiB;
  CHECK(state.action() == NextAction::kChurn);
  state.census.live_bytes = 2 * kMiB;
  CHECK(state.action() == NextAction::kWatch);
  state.metadata.tracker->recording = false;
  CHECK(state.action() == NextAction::kTrackAndWatch);
  state.runs = false;
  CHECK(state.action() == NextAction::kStacks);
}

TEST_CASE("churn is said where stacks are the next step") {
  State state;
  state.set(RssRow::kProgram, 20 * kMiB);
  state.track(1000);
  state.census.live_bytes = kMiB;
  state.stacks.sites[2].freed_bytes = 16 * kMiB - 1;
  CHECK(state.action() == NextAction::kStacks);
  CHECK(state.next().churned_bytes == 0);
  state.stacks.sites[2].freed_bytes = 16 * kMiB;
  CHECK(state.next().churned_bytes == 16 * kMiB);
}

TEST_CASE("damage comes before all else") {
  State state;
  state.metadata.freeze.method = FreezeMethod::kFork;
  state.metadata.heap.corruptions.resize(2);
  CHECK(state.next() == NextStep{NextSubject::kDamage, NextAction::kReport, 2, {}});
  state.is_whole_report = true;
  CHECK(state.action() == NextAction::kExport);
  // Read while it ran: it may be sound.
  state.metadata.freeze.method = FreezeMethod::kNone;
  CHECK(state.action() == NextAction::kAttach);
  state.runs = false;
  CHECK(state.action() == NextAction::kExport);
}

TEST_CASE("another allocator leads to its own account") {
  State state;
  state.set(RssRow::kOtherAnonymous, 50 * kMiB);
  state.metadata.heap.foreign_allocator = "jemalloc";
  CHECK(state.next().subject == NextSubject::kOtherMemory);  // it is there, but not the malloc
  state.metadata.heap.foreign_answers_malloc = true;
  CHECK(state.next() ==
        NextStep{NextSubject::kAllocator, NextAction::kStatistics, 50 * kMiB, "jemalloc"});
  state.metadata.heap.foreign_allocator = "musl";
  CHECK(state.action() == NextAction::kWhoMaps);
  state.runs = false;
  CHECK(state.action() == NextAction::kReport);
  state.metadata.heap = {};
  CHECK(state.next().subject == NextSubject::kAllocator);
}

TEST_CASE("a trim that gives a tenth back comes last, whatever comes first") {
  State state;
  state.account.total.resident = 100 * kMiB;
  Advice trim;
  trim.kind = AdviceKind::kTrim;
  trim.saves_least = trim.saves_most = 10 * kMiB;
  state.advice = {trim};
  CHECK(state.action() == NextAction::kTrack);
  CHECK(state.next().trim_bytes == 10 * kMiB);
  state.advice[0].saves_least = 10 * kMiB - 1;
  CHECK(state.next().trim_bytes == 0);
  state.advice[0].saves_least = 10 * kMiB;
  state.runs = false;
  CHECK(state.next().trim_bytes == 0);
  state.runs = true;
  state.set(RssRow::kBins, 50 * kMiB);
  state.advice[0].saves_least = 40 * kMiB;
  CHECK(state.action() == NextAction::kTrim);
  CHECK(state.next().trim_bytes == 0);  // said already
}

TEST_CASE("a runtime is named by its program or its library") {
  State state;
  CHECK(state.next().runtime == NextRuntime::kNone);
  Mapping library;
  library.path = "/usr/lib/libruby-3.1.so.3.1.7";
  library.inode = 1;
  state.metadata.mappings.push_back(library);
  CHECK(state.next().runtime == NextRuntime::kRuby);
  state.metadata.mappings[0].path = "/usr/bin/python3.11";
  CHECK(state.next().runtime == NextRuntime::kPython);
  state.metadata.process.exe = "/usr/lib/postgresql/15/bin/postgres";
  CHECK(state.next().runtime == NextRuntime::kPostgres);
  state.metadata.heap.corruptions.resize(1);
  CHECK(state.next().runtime == NextRuntime::kNone);
}
