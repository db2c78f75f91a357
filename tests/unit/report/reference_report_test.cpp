#include "report/reference_report.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <string>

#include "analysis/diff_names.h"
#include "report/owner_labels.h"
#include "report/reference_labels.h"
#include "report/terminal_text.h"
#include "tests/unit/analysis/handmade_references.h"
#include "tests/unit/report/reported_heap.h"
#include "tests/unit/report/says.h"

using namespace heapsnap;
using namespace heapsnap::test;

TEST_CASE("owners are a tree, with what is alike on one line") {
  const ReportedHeap reported;
  const OwnerTree tree = make_owner_tree(reported.streams, reported.heap.streams);
  const std::string text = printed_by(
      [&](Writer& out) { print_owners(out, reported.input(), tree, OwnerListing{}, TextStyle{}); });
  CHECK(says(text, "g_cache in server, 101 blocks\n"));
  CHECK(says(text, "    1 × 1,016 bytes\n"));
  CHECK(says(text, "      50 × Session\\x1b, in an array\n"));
  CHECK(says(text, "        50 × 24 to 56 bytes, held at +0x18\n"));
  CHECK(says(text, "leaked    160 B in 2 blocks"));
  // What leads to one of the Sessions, with its real address; what they are; and what grows, which
  // is seen in a second snapshot.
  CHECK(says(text, fmt::format("    heapsnap why {:#x} a.hsnap\n",
                               reported.heap.address_of(reported.table + 1).value())));
  CHECK(says(text, "    heapsnap types a.hsnap\n"));
  CHECK(says(text, "    heapsnap leaks a.hsnap\n"));
  CHECK(!says(text, "heapsnap objects"));
  CHECK(says(text,
             "    heapsnap attach --references yes 42 -o later.hsnap\n"
             "    heapsnap diff a.hsnap later.hsnap\n"));
  OwnerListing shallow;
  shallow.depth = 1;
  CHECK(says(printed_by([&](Writer& out) {
               print_owners(out, reported.input(), tree, shallow, TextStyle{});
             }),
             "hold more, counted in their sizes: --depth 2\n"));
  OwnerListing coarse;
  coarse.min_share = 0.5;
  CHECK(says(printed_by([&](Writer& out) {
               print_owners(out, reported.input(), tree, coarse, TextStyle{});
             }),
             "\n  1 smaller row, counted in the sizes above: --limit 0 --min-share 0\n"));
  const std::string json = printed_by(
      [&](Writer& out) { print_json_owners(out, reported.input(), tree, OwnerListing{}); });
  simdjson::dom::parser parser;
  simdjson::dom::element document = parser.parse(json);
  CHECK(std::string(document["kind"]) == "owners");
  CHECK(int64_t(document["version"]) == 1);
  simdjson::dom::element owner = document["owners"].at(0);
  CHECK(std::string(owner["root"]) == "g_cache");
  CHECK(std::string(owner["module"]) == "/opt/server");
  CHECK(int64_t(owner["retained_blocks"]) == 101);
  simdjson::dom::element sessions = owner["holds"].at(0)["holds"].at(0);
  CHECK(int64_t(sessions["count"]) == 50);
  CHECK(int64_t(sessions["holds"].at(0)["held_at"]) == 0x18);
}

TEST_CASE("a range of sizes is one size where both look alike") {
  CHECK(block_sizes_label(40, 40) == "40 bytes");
  CHECK(block_sizes_label(40, 56) == "40 to 56 bytes");
  CHECK(block_sizes_label(1736, 1752) == "1.7 KiB");
  CHECK(block_sizes_label(1736, 3000) == "1.7 KiB to 2.9 KiB");
}

TEST_CASE("what a large object holds is in no array, and what a small array holds is") {
  HandmadeHeap heap;
  const TypeNumber server = heap.add_type("Server");
  const TypeNumber storage = heap.add_type("std::vector storage", TypeSource::kStructure);
  const uint32_t place = heap.add_place(RootKind::kVariable, "g_server");
  const BlockNumber one = heap.add(648, server);
  const BlockNumber elements = heap.add(56, storage);
  heap.hold(place, one);
  heap.link(one, 0x48, elements);
  for (uint32_t i = 0; i < 5; ++i) heap.link(elements, 8 * i, heap.add(104));
  heap.snapshot.metadata.references.emplace().is_complete = true;
  const SnapshotStreams streams = heap.finish();
  const RecordedStacks recorded;
  const ReferenceReportInput input{heap.snapshot.metadata, heap.streams, recorded, "a.hsnap"};
  const OwnerTree tree = make_owner_tree(streams, heap.streams);
  const std::string text =
      printed_by([&](Writer& out) { print_owners(out, input, tree, OwnerListing{}, TextStyle{}); });
  CHECK(says(text, "    1 × Server\n"));
  CHECK(says(text, "      1 × std::vector storage\n"));
  CHECK(says(text, "        5 × 104 bytes, in an array\n"));
}

TEST_CASE("objects that only hold others are no level of the tree of owners") {
  HandmadeHeap heap;
  const uint32_t place = heap.add_place(RootKind::kGlobal, "app.bus");
  BlockNumber above = kNoBlock;
  for (const char* name : {"Bus", "attributes", "list", "Cart"}) {
    const TypeNumber type = heap.add_type(name);
    heap.streams.types[type].source = TypeSource::kRuntime;
    const BlockNumber block = heap.add(name == std::string("Cart") ? 8008 : 40, type);
    above == kNoBlock ? heap.hold(place, block) : heap.link(above, 0, block);
    above = block;
  }
  heap.link(above, 0, heap.add(8008));
  heap.snapshot.metadata.references.emplace().is_complete = true;
  const SnapshotStreams streams = heap.finish();
  const RecordedStacks recorded;
  OwnerListing listing;
  listing.depth = 1;
  const std::string text = printed_by([&](Writer& out) {
    print_owners(out, {heap.snapshot.metadata, heap.streams, recorded, "a.hsnap"},
                 make_owner_tree(streams, heap.streams), listing, TextStyle{});
  });
  CHECK(says(text, "1 × Cart"));
  CHECK_FALSE(says(text, "8,008 bytes"));
  CHECK(says(text, "--depth 2"));
}

TEST_CASE("threads that do the same are named together") {
  SnapshotMetadata metadata;
  metadata.threads = {{7, "worker-7", {}}, {8, "worker-8", {}}};
  RootPlace place;
  place.kind = RootKind::kStack;
  place.tid = 7;
  place.name = "handle";
  place.module = "/opt/server";
  CHECK(root_label(metadata, place) == "thread 7 (worker-7), in handle in server");
  CHECK(root_label(metadata, place, 2) == "2 threads (worker-*), in handle in server");
  place.kind = RootKind::kThreadLocal;
  CHECK(root_label(metadata, place, 2) == "handle in server, thread-local of 2 threads (worker-*)");
  // What the threads have from the process tells nothing.
  SnapshotMetadata unnamed = metadata;
  unnamed.process.comm = "worker-7";
  CHECK(root_label(unnamed, place) == "handle in server, thread-local of thread 7");
  // The module is the interpreter, not where the variable is.
  place.kind = RootKind::kGlobal;
  CHECK(root_label(metadata, place) == "handle");
  place.kind = RootKind::kLocal;
  place.name = "orders in handle() at app.py:42";
  CHECK(root_label(metadata, place) == "orders in handle() at app.py:42, thread 7 (worker-7)");
  CHECK(root_label(metadata, place, 2) == "orders in handle() at app.py, 2 threads (worker-*)");
  CHECK(short_root_label(metadata, place) == "orders in handle() at app.py:42");
  place.tid = 0;
  CHECK(root_label(metadata, place) == "orders in handle() at app.py:42");
}

TEST_CASE("however little room there is, it is said that more than one root holds it") {
  SnapshotMetadata metadata;
  std::vector<RootPlace> places(2);
  for (RootPlace& place : places) place.kind = RootKind::kVariable;
  places[0].name = "gateway::detail::connections_by_peer_address";
  places[1].name = "gateway::detail::connections_by_number";
  const std::vector<uint32_t> threads;
  const std::vector<std::vector<uint32_t>> groups = {{0, 1}};
  const OwnerLabels labels(metadata, places, threads, groups);
  CHECK(labels.of_several(0, 100) == places[0].name + " and " + places[1].name + " together");
  const std::string cut = labels.of_several(0, 50);
  CAPTURE(cut);
  CHECK(display_width(cut) <= 50);
  CHECK(cut.starts_with("gateway::"));
  CHECK(cut.ends_with("and 1 more variable, together"));
  const std::string short_cut = labels.of_several(0, 40);
  CAPTURE(short_cut);
  CHECK(display_width(short_cut) <= 40);
  CHECK(short_cut.starts_with("gateway::"));
  CHECK(short_cut.ends_with("… and 1 more, together"));
  CHECK(labels.of_several(0, 30) == kSeveralRoots);
}

TEST_CASE("of many roots the first is named, as in what grew") {
  SnapshotMetadata metadata;
  std::vector<RootPlace> places(10);
  for (RootPlace& place : places) place.kind = RootKind::kVariable;
  places[0].name = "g_timers";
  const std::vector<uint32_t> threads;
  const std::vector<std::vector<uint32_t>> groups = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}};
  const OwnerLabels labels(metadata, places, threads, groups);
  CHECK(labels.of_several(0, 100) == "g_timers and 9 more roots, together");
  CHECK(labels.of_several(0, 34) == "g_timers and 9 more, together");
  CHECK(labels.of_several(0, 28) == kSeveralRoots);
  places[0].name = "g_timers_by_deadline";
  CHECK(labels.of_several(0, 35) == "g_timers_by_d… and 9 more, together");
}

TEST_CASE("a variable without a name is where its words are") {
  HandmadeHeap heap;
  const uint32_t data = heap.add_place(RootKind::kVariable, "");
  heap.streams.places[data].module = "/opt/server";
  heap.streams.places[data].module_offset = 0x9000;
  // Two words that lead to the same: an owner of 0x91c0, whose block 0x91f8 leads to.
  const BlockNumber table = heap.add(1016);
  const BlockNumber session = heap.add(40);
  heap.link(table, 0, session);
  heap.hold(data, session, 0x1c0);
  heap.hold(data, table, 0x1f8);
  heap.hold(data, heap.add(104), 0x800);
  heap.snapshot.metadata.references.emplace().is_complete = true;
  const SnapshotStreams streams = heap.finish();
  const RecordedStacks recorded;
  const ReferenceReportInput input{heap.snapshot.metadata, heap.streams, recorded, "a.hsnap"};
  const OwnerTree tree = make_owner_tree(streams, heap.streams);
  const std::string owners =
      printed_by([&](Writer& out) { print_owners(out, input, tree, OwnerListing{}, TextStyle{}); });
  CHECK(says(owners, "server+0x91c0 to +0x91f8, 2 blocks\n"));
  CHECK(says(owners, "server+0x9800, 1 block\n"));
  const std::string json =
      printed_by([&](Writer& out) { print_json_owners(out, input, tree, OwnerListing{}); });
  simdjson::dom::parser parser;
  simdjson::dom::element owner = simdjson::dom::element(parser.parse(json))["owners"].at(0);
  CHECK(int64_t(owner["module_offset"]) == 0x91c0);
  CHECK(int64_t(owner["size"]) == 0x40);

  const auto held = explain_block(streams, heap.streams, heap.address_of(table), 5);
  REQUIRE(held);
  const std::string why =
      printed_by([&](Writer& out) { print_held_block(out, input, *held, TextStyle{}); });
  CHECK(says(why, "  server+0x91f8: its owner\n    → 0x"));
}

TEST_CASE("each root of what several own together is named, if not in the row, then below it") {
  for (const int variables : {2, 9, 20}) {
    HandmadeHeap heap;
    const BlockNumber shared = heap.add(5000);
    for (int i = 0; i < variables; ++i) {
      const uint32_t place = heap.add_place(RootKind::kVariable, "g_index_" + std::to_string(i));
      heap.hold(place, shared);
    }
    heap.snapshot.metadata.references.emplace().is_complete = true;
    const SnapshotStreams streams = heap.finish();
    const RecordedStacks recorded;
    const OwnerTree tree = make_owner_tree(streams, heap.streams);
    const std::string text = printed_by([&](Writer& out) {
      print_owners(out, {heap.snapshot.metadata, heap.streams, recorded, "a.hsnap"}, tree,
                   {.depth = 1}, {.color = false, .width = 200});
    });
    const std::string below = "                         of g_index_0, g_index_1, ";
    CHECK(says(text, "g_index_0 and g_index_1 together") == (variables == 2));
    CHECK(says(text, below.c_str()) == (variables > 2));
    CHECK(says(text, "g_index_8\n") == (variables == 9));
    CHECK(says(text, " and 4 more\n") == (variables == 20));
  }
}

TEST_CASE("why shows each step to the block") {
  const ReportedHeap reported;
  const Address name = reported.heap.address_of(2);
  const auto held = explain_block(reported.streams, reported.heap.streams, name + 3, 5);
  REQUIRE(held);
  const std::string text =
      printed_by([&](Writer& out) { print_held_block(out, reported.input(), *held, TextStyle{}); });

  CHECK(says(text, "24 bytes; the address is 3 bytes into it\n"));
  CHECK(says(text, "  g_cache in server: its owner\n    +0x8 → "));
  CHECK(says(text, "    +0x0 → "));
  CHECK(says(text, " Session\\x1b of 40 bytes\n    +0x18 → "));
  const std::string json =
      printed_by([&](Writer& out) { print_json_held_block(out, reported.input(), *held); });
  simdjson::dom::parser parser;
  simdjson::dom::element document = parser.parse(json);
  CHECK(bool(document["leaked"]) == false);
  simdjson::dom::element path = document["paths"].at(0);
  CHECK(std::string(path["root"]) == "g_cache");
  CHECK(path["steps"].get_array().size() == 3);
  CHECK(int64_t(path["steps"].at(2)["held_at"]) == 0x18);

  const auto lost = explain_block(reported.streams, reported.heap.streams,
                                  reported.heap.address_of(reported.lost), 5);
  REQUIRE(lost);
  const std::string of_lost =
      printed_by([&](Writer& out) { print_held_block(out, reported.input(), *lost, TextStyle{}); });
  CHECK(says(of_lost, "No root leads to it: it is leaked\n"));
  CHECK(says(of_lost, "No block points to it, either.\n"));
  // The way goes up to it, and from there to who made it.
  const std::string lost_address =
      fmt::format("{:#x}", reported.heap.address_of(reported.lost).value());
  const auto below = explain_block(reported.streams, reported.heap.streams,
                                   reported.heap.address_of(reported.lost + 1), 5);
  REQUIRE(below);
  const std::string of_below = printed_by(
      [&](Writer& out) { print_held_block(out, reported.input(), *below, TextStyle{}); });
  CHECK(says(of_below, "    heapsnap why " + lost_address + " a.hsnap\n"));
  CHECK(says(of_below, "    heapsnap leaks a.hsnap\n"));
  CHECK(says(of_lost, "    heapsnap inject 42\n    heapsnap leaks 42\n"));
  // Of a block that is older than the tracker, only another start tells.
  SnapshotMetadata tracked = reported.heap.snapshot.metadata;
  tracked.tracker.emplace().recording = true;
  const std::string of_older = printed_by([&](Writer& out) {
    print_held_block(out, {tracked, reported.heap.streams, reported.recorded, "a.hsnap"}, *lost,
                     TextStyle{});
  });
  CHECK(says(of_older, "    heapsnap run -- COMMAND\n"));
  CHECK(!says(of_older, "heapsnap leaks"));
}

TEST_CASE("why shows the first and the last of many steps that are alike") {
  HandmadeHeap heap;
  const TypeNumber node_type = heap.add_type("Node");
  const uint32_t list = heap.add_place(RootKind::kVariable, "g_list");
  BlockNumber node = heap.add(40, node_type);
  heap.hold(list, node, 0);
  for (int i = 1; i < 1000; ++i) {
    const BlockNumber next = heap.add(40, node_type);
    heap.link(node, 0, next);
    node = next;
  }
  const BlockNumber last = heap.add(104);
  heap.link(node, 8, last);
  heap.snapshot.metadata.references.emplace().is_complete = true;
  const SnapshotStreams streams = heap.finish();
  const RecordedStacks recorded;
  const auto held = explain_block(streams, heap.streams, heap.address_of(last), 5);
  REQUIRE(held);
  const std::string text = printed_by([&](Writer& out) {
    print_held_block(out, {heap.snapshot.metadata, heap.streams, recorded, "a.hsnap"}, *held,
                     {.color = false, .width = 100});
  });
  CHECK(says(text, "the nearest roots first; all of them may be stale: if the "));
  CHECK(says(text, "  g_list: its owner\n    +0x0 → "));
  CHECK(says(text,
             " Node of 40 bytes\n    … 998 more like it, each at +0x0 of the one before\n"
             "    +0x0 → "));
  CHECK(says(text, " Node of 40 bytes\n    +0x8 → "));
  CHECK(std::count(text.begin(), text.end(), '\n') < 24);
}

TEST_CASE("types are a table, and what has none is what holds it") {
  ReportedHeap reported;
  const TypeCensus census = take_type_census(reported.streams, reported.heap.streams);
  const auto print = [&](const TypeListing& listing, unsigned width) {
    return printed_by([&](Writer& out) {
      print_types(out, reported.input(), census, listing, {.color = false, .width = width});
    });
  };
  const std::string text = print(TypeListing{}, 80);
  CHECK(says(text, "in use    5.0 KiB in 103 blocks\n"));
  CHECK(says(text, "typed     2.0 KiB in 50 blocks (38.8 %): 38.8 % by vtables\n"));
  CHECK(says(text, "unknown   3.1 KiB in 53 blocks (61.2 %): listed by size"));
  CHECK(says(text, "  Session\\x1b\n"));
  CHECK(says(text, "  24 to 56 bytes, held by Session\\x1b+0x18\n"));
  CHECK(says(text, "  1,016 bytes, held by g_cache in server\n"));
  CHECK(says(text, "  104 bytes, held by nothing\n"));
  CHECK(says(text, "  56 bytes, held by 104 bytes+0x10\n"));
  CHECK(says(text, "    heapsnap owners a.hsnap\n"));
  CHECK(text.find("Session\\x1b\n") < text.find("held by g_cache"));
  const std::string first = print({TypeListing::Order::kRetained, 1}, 80);
  CHECK(says(first, "held by g_cache in server\n"));
  CHECK(says(first, "  4 more rows with 4.0 KiB: --limit 0\n"));

  const std::string json = printed_by(
      [&](Writer& out) { print_json_types(out, reported.input(), census, TypeListing{}); });
  simdjson::dom::parser parser;
  simdjson::dom::element document = parser.parse(json);
  CHECK(std::string(document["kind"]) == "types");
  CHECK(int64_t(document["version"]) == 1);
  CHECK(int64_t(document["typed_bytes"]) == 2000);
  REQUIRE(document["typed_by"].get_array().size() == 1);
  CHECK(std::string(document["typed_by"].at(0)["source"]) == "vtable");
  CHECK(int64_t(document["typed_by"].at(0)["blocks"]) == 50);
  CHECK(int64_t(document["typed_by"].at(0)["bytes"]) == 2000);
  REQUIRE(document["types"].get_array().size() == 1);
  simdjson::dom::element session = document["types"].at(0);
  CHECK(std::string(session["type"]) == "Session\x1b");
  CHECK(std::string(session["source"]) == "vtable");
  CHECK(int64_t(session["count"]) == 50);
  CHECK(int64_t(session["bytes"]) == 2000);
  CHECK(int64_t(session["retained_blocks"]) == 100);
  REQUIRE(document["unknown"].get_array().size() == 4);
  simdjson::dom::element names = document["unknown"].at(0);
  CHECK(std::string(names["holder"]["kind"]) == "type");
  CHECK(int64_t(names["holder"]["held_at"]) == 0x18);
  simdjson::dom::element table = document["unknown"].at(1);
  CHECK(std::string(table["holder"]["root"]) == "g_cache");
}

TEST_CASE("classes of one name say whose they are, and long names are cut") {
  HandmadeHeap heap;
  heap.snapshot.metadata.references.emplace().is_complete = true;
  for (const char* module : {"/lib/one.so", "/lib/two.so"}) {
    const TypeNumber type = heap.add_type("Filter");
    heap.streams.types[type].module = module;
    heap.add(24, type);
  }
  heap.add(40, heap.add_type(std::string(300, 'x')));
  const SnapshotStreams streams = heap.finish();
  const RecordedStacks recorded;
  const ReferenceReportInput input{heap.snapshot.metadata, heap.streams, recorded, ""};
  const std::string text = printed_by([&](Writer& out) {
    print_types(out, input, take_type_census(streams, heap.streams), TypeListing{},
                {.color = false, .width = 80});
  });
  CHECK(says(text, "Filter in one.so\n"));
  CHECK(says(text, "Filter in two.so\n"));
  CHECK(says(text, "xx…xx"));
  size_t longest = 0;
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    longest = std::max(longest, display_width(text.substr(begin, text.find('\n', begin) - begin)));
  }
  CHECK(longest <= 80);
}
