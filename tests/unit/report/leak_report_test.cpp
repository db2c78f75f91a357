// What is printed of leaks.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <cstdio>
#include <string>

#include "analysis/leak_census.h"
#include "analysis/owner_tree.h"
#include "report/reference_labels.h"
#include "report/reference_report.h"
#include "tests/unit/analysis/handmade_references.h"
#include "tests/unit/report/reported_heap.h"
#include "tests/unit/report/says.h"

using namespace heapsnap;
using namespace heapsnap::test;

TEST_CASE("leaks say what is lost, and what that led to") {
  const ReportedHeap reported;
  const LeakCensus census = take_leak_census(reported.streams, reported.heap.streams);
  const std::string text =
      printed_by([&](Writer& out) { print_leaks(out, reported.input(), census, 20, TextStyle{}); });
  CHECK(says(text, "leaked    160 B in 2 blocks ("));
  CHECK(says(text, "1 block directly, 0 in cycles, 1 held by these\n"));
  CHECK(says(text, "  160 B in 2 blocks, 1 × 104 bytes\n"));
  CHECK(says(
      text, "      at " + [&] {
        char address[32];
        std::snprintf(
            address, sizeof address, "0x%llx",
            static_cast<unsigned long long>(reported.heap.address_of(reported.lost).value()));
        return std::string(address);
      }()));
  CHECK(says(text, "    heapsnap inject 42\n"));
  const std::string json =
      printed_by([&](Writer& out) { print_json_leaks(out, reported.input(), census, true); });
  simdjson::dom::parser parser;
  simdjson::dom::element document = parser.parse(json);
  CHECK(int64_t(document["leaked_blocks"]) == 2);
  CHECK(int64_t(document["leaked_bytes"]) == 160);
  CHECK(int64_t(document["direct_bytes"]) == 104);
  CHECK(document["leaks"].get_array().size() == 2);
  simdjson::dom::element held = document["leaks"].at(1);
  CHECK(std::string(held["kind"]) == "indirect");
  CHECK(int64_t(held["bytes"]) == 56);
  CHECK(std::string(held["held_by"]) == std::string(document["leaks"].at(0)["addr"]));
  CHECK(int64_t(document["groups"].at(0)["retained_bytes"]) == 160);
}

TEST_CASE("what is said of leaks follows their sum, before other sums") {
  ReportedHeap reported;
  LeakCensus census = take_leak_census(reported.streams, reported.heap.streams);
  census.garbage = {3, 4096};
  const auto text = [&] {
    return printed_by([&](Writer& out) {
      print_leaks(out, reported.input(), census, 20, TextStyle{false, 80});
    });
  };
  CHECK(says(text(),
             "            1 block directly, 0 in cycles, 1 held by these\n"
             "            No root leads to these blocks. Sizes include everything that is\n"
             "            reachable only through them.\n"
             "  garbage   4.0 KiB in 3 blocks: objects that no root leads to, freed by the\n"
             "            next full garbage collection\n"));
  // Much garbage, and a runtime whose collector can be told to run.
  auto& runtimes = reported.heap.snapshot.metadata.runtimes.runtimes;
  runtimes.emplace_back().kind = RuntimeKind::kPython;
  CHECK(says(text(),
             "next full garbage collection (in Python: gc.collect(); what that\n"
             "            leaves is leaked by C code)\n"));
  runtimes.emplace_back().kind = RuntimeKind::kRuby;
  CHECK(says(text(), "            leaves is leaked by C code; in Ruby: GC.start)\n"));
  runtimes.erase(runtimes.begin());
  CHECK(says(text(), "next full garbage collection (in Ruby: GC.start)\n"));
  census.in_use.bytes = census.garbage.bytes * 11;
  CHECK(says(text(), "next full garbage collection\n"));
}

TEST_CASE("the tracker is not to be loaded where it records") {
  ReportedHeap reported;
  reported.heap.snapshot.metadata.tracker.emplace().recording = true;
  const LeakCensus census = take_leak_census(reported.streams, reported.heap.streams);
  const auto text = [&] {
    return printed_by([&](Writer& out) {
      print_leaks(out, reported.input(), census, 20, TextStyle{false, 80});
    });
  };
  CHECK_FALSE(says(text(), "heapsnap inject"));
  CHECK(says(text(), "No stack is known of the largest one (allocated before tracking began)."));
  CHECK(says(text(), "    heapsnap why 0x"));
  reported.heap.snapshot.metadata.tracker->recording = false;
  CHECK(says(text(), "    heapsnap inject 42\n    heapsnap leaks 42\n"));
}

TEST_CASE("no command is for the PID of a process that does not run here") {
  const ReportedHeap reported;
  ReferenceReportInput input = reported.input();
  input.may_run = false;
  const LeakCensus census = take_leak_census(reported.streams, reported.heap.streams);
  const OwnerTree tree = make_owner_tree(reported.streams, reported.heap.streams);
  for (const std::string& text :
       {printed_by([&](Writer& out) { print_leaks(out, input, census, 20, TextStyle{}); }),
        printed_by(
            [&](Writer& out) { print_owners(out, input, tree, OwnerListing{}, TextStyle{}); })}) {
    CAPTURE(text);
    CHECK(says(text, "Process 42 does not run here."));
    CHECK(says(text, "    heapsnap run -- COMMAND\n"));
    CHECK_FALSE(says(text, " 42\n"));
    CHECK_FALSE(says(text, " 42 -o"));
  }
}

TEST_CASE("a cycle is told with the other classes in it") {
  HandmadeHeap heap;
  const TypeNumber session = heap.add_type("shop::Session");
  const TypeNumber cart = heap.add_type("shop::Cart");
  const BlockNumber first = heap.add(40, cart);
  const BlockNumber second = heap.add(56, session);
  heap.link(first, 8, second);
  heap.link(second, 8, first);
  heap.snapshot.metadata.references.emplace().is_complete = true;
  const SnapshotStreams streams = heap.finish();
  const RecordedStacks recorded;
  const ReferenceReportInput input{heap.snapshot.metadata, heap.streams, recorded, "a.hsnap"};
  const LeakCensus census = take_leak_census(streams, heap.streams);
  const std::string text =
      printed_by([&](Writer& out) { print_leaks(out, input, census, 20, TextStyle{}); });
  CHECK(says(text, fmt::format("  96 B in 2 blocks, 1 cycle with shop::Session of 56 bytes\n"
                               "      at {:#x}, with shop::Cart\n",
                               heap.address_of(second).value())));
  const std::string json =
      printed_by([&](Writer& out) { print_json_leaks(out, input, census, false); });
  CHECK(says(json, "\"partners\":[\"shop::Cart\"]"));
}

TEST_CASE("the sizes of a cycle's blocks are not that of the cycle") {
  HandmadeHeap heap;
  const BlockNumber first = heap.add(56);
  const BlockNumber second = heap.add(56);
  heap.link(first, 8, second);
  heap.link(second, 8, first);
  const SnapshotStreams streams = heap.finish();
  const RecordedStacks recorded;
  const ReferenceReportInput input{heap.snapshot.metadata, heap.streams, recorded, "a.hsnap"};
  const std::string text = printed_by([&](Writer& out) {
    print_leaks(out, input, take_leak_census(streams, heap.streams), 20, TextStyle{});
  });
  CHECK(says(text, "  112 B in 2 blocks, 1 cycle with blocks of 56 bytes\n"));
}

TEST_CASE("what is only in shared memory may not be seen, where there is some") {
  HandmadeHeap heap;
  heap.add(56);
  const SnapshotStreams streams = heap.finish();
  const RecordedStacks recorded;
  SnapshotMetadata& metadata = heap.snapshot.metadata;
  const ReferenceReportInput input{metadata, heap.streams, recorded, "a.hsnap"};
  const auto text_of = [&] {
    return printed_by([&](Writer& out) {
      print_leaks(out, input, take_leak_census(streams, heap.streams), 20, TextStyle{});
    });
  };
  CHECK(!says(text_of(), "shared memory"));
  Mapping& mapping = metadata.mappings.emplace_back();
  mapping.shared = mapping.writable = true;
  CHECK(says(text_of(), "or in shared memory that is not"));
}

TEST_CASE("nothing leaked is said, with what it cannot tell") {
  HandmadeHeap heap;
  heap.hold(heap.add_place(RootKind::kStack, "", 7), heap.add(24));
  heap.snapshot.metadata.references.emplace().bytes_in_swap = 4096;
  const SnapshotStreams streams = heap.finish();
  const RecordedStacks recorded;
  const ReferenceReportInput input{heap.snapshot.metadata, heap.streams, recorded, ""};
  const std::string text = printed_by([&](Writer& out) {
    print_leaks(out, input, take_leak_census(streams, heap.streams), 20, TextStyle{});
  });
  CHECK(says(text, "leaked    nothing: roots lead to all blocks\n"));
  CHECK(says(text, "4.0 KiB were in swap and not looked at"));
  CHECK(says(text, "    heapsnap owners 42\n"));
  CHECK(root_label(input.metadata, heap.streams.places[0]) == "thread 7, on its stack");
}
