#include "report/object_report.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <sstream>
#include <string>

#include "report/terminal_text.h"

using namespace heapsnap;

namespace {

SnapshotMetadata sample() {
  SnapshotMetadata metadata;
  metadata.process.pid = 42;
  metadata.process.comm = "web";
  Runtime python;
  python.kind = RuntimeKind::kPython;
  python.version = "3.11.2";
  python.module = "/usr/bin/python3.11";
  python.interpreters = 2;
  python.objects = 1234567;
  python.areas = 64;
  python.area_bytes = 64 << 20;
  python.used_bytes = 48 << 20;
  python.free_bytes = 8 << 20;
  python.free_page_bytes = 4 << 20;
  python.overhead_bytes = 3 << 20;
  python.alignment_bytes = 1 << 20;
  metadata.runtimes.runtimes = {python};
  metadata.runtimes.classes = {{0, "Order", 1000, 900, 3 << 20, 1 << 20, 512 << 10},
                               {0, "a\x1b[2Jb", 10, 0, 2048, 0, 0},
                               {0, std::string(300, 'x'), 1, 0, 64, 0, 0}};
  metadata.runtimes.pages = {{0, 16, 10, 4000, 6200}, {0, 512, 5, 155, 0}};
  return metadata;
}

std::string text_of(const SnapshotMetadata& metadata, uint64_t limit, unsigned width = 80) {
  const ObjectCensus census = take_object_census(metadata.runtimes, ObjectCensus::Order::kBytes);
  std::string text;
  Writer out(text);
  print_objects(out, {metadata, census, "a.hsnap"}, limit, {false, width});
  out.flush();
  return text;
}

}  // namespace

TEST_CASE("objects by class, as they stand") {
  const std::string text = text_of(sample(), 1);
  CHECK(text ==
        "Process 42: web\n"
        "  python    3.11.2 in python3.11, 2 interpreters\n"
        "  objects   1,011 objects in 4.0 MiB, with their buffers; 512.0 KiB of it\n"
        "            malloc's\n"
        "  arenas    64.0 MiB in 64 arenas: 48.0 MiB (75.0 %) used, 8.0 MiB (12.5 %) free\n"
        "            in pools, 4.0 MiB (6.2 %) in pools without an object, 4.0 MiB\n"
        "            (6.2 %) in headers and what is left over\n"
        "  slots     48.0 MiB used: 3.5 MiB by these objects and their buffers, 44.5 MiB\n"
        "            by rounding up to multiples of 16 bytes and by buffers that no one\n"
        "            object has\n"
        "\n"
        "    bytes   share  objects  own bytes  class\n"
        "  4.0 MiB  99.9 %    1,000    3.0 MiB  Order\n"
        "  2 more classes with 2.1 KiB: --limit 0\n"
        "  bytes: the objects with their own buffers, such as a list's items; own bytes:\n"
        "  without.\n"
        "  What they retain is not known, since references were not looked at.\n"
        "\n"
        "Free slots in pools that have used ones\n"
        "  slots of  pools  used slots  free slots  free bytes\n"
        "      16 B     10       4,000       6,200    96.9 KiB\n"
        "\n"
        "What next\n"
        "  To see what each class retains, and what keeps them alive, take a snapshot\n"
        "  with references:\n"
        "    heapsnap attach --references yes 42 -o objects.hsnap\n"
        "    heapsnap objects objects.hsnap\n"
        "    heapsnap owners objects.hsnap\n"
        "  To see which of these grow, take another snapshot later, and compare:\n"
        "    heapsnap attach --references yes 42 -o later.hsnap\n"
        "    heapsnap diff a.hsnap later.hsnap\n");
}

TEST_CASE("on a narrow screen names come before what else there is to say of a class") {
  SnapshotMetadata metadata = sample();
  metadata.runtimes.classes.front().name = "OrderLineRevision";
  const std::string text = text_of(metadata, 1, 60);
  CHECK(text.find("\n    bytes   share  objects  class\n"
                  "  4.0 MiB  99.9 %    1,000  OrderLineRevision\n") != std::string::npos);
  CHECK(text.find("own bytes") == std::string::npos);
}

TEST_CASE("what retains more than all objects have says so, and leads to owners") {
  const SnapshotMetadata metadata = sample();
  ObjectCensus census = take_object_census(metadata.runtimes, ObjectCensus::Order::kBytes);
  census.retained_bytes = {5 << 20, 4096, 64};
  const auto printed = [&](const char* path) {
    std::string text;
    Writer out(text);
    print_objects(out, {metadata, census, path}, 0, {false, 100});
    out.flush();
    return text;
  };
  const std::string text = printed("a.hsnap");
  CHECK(text.find("5.0 MiB  Order\n") != std::string::npos);
  CHECK(text.find("it may be more than all objects have,") != std::string::npos);
  CHECK(text.find("leads to their buffers, too.\n") != std::string::npos);
  CHECK(text.find("    heapsnap owners a.hsnap\n") != std::string::npos);
  CHECK(text.find("retain is not known") == std::string::npos);
  CHECK(printed("").find("    heapsnap owners objects.hsnap\n") != std::string::npos);
}

TEST_CASE("dead objects that the collector has not freed yet are told of") {
  SnapshotMetadata metadata = sample();
  metadata.runtimes.runtimes[0].unswept_slots = 1500;
  metadata.runtimes.runtimes[0].unswept_bytes = 60000;
  CHECK(text_of(metadata, 1, 200)
            .find("1,500 of the used slots (58.6 KiB) have objects that the "
                  "garbage collector has found dead and not freed yet") != std::string::npos);
  CHECK(text_of(sample(), 1, 200).find("not freed yet") == std::string::npos);
}

TEST_CASE("objects that another malloc has are told to be missing") {
  SnapshotMetadata metadata = sample();
  CHECK(text_of(metadata, 1, 200).find("are missing") == std::string::npos);
  metadata.heap.foreign_allocator = "libjemalloc.so.2";
  metadata.heap.foreign_answers_malloc = true;
  CHECK(
      text_of(metadata, 1, 200)
          .find("provided by libjemalloc.so.2, which heapsnap does not read: objects of more than "
                "512 bytes are missing") != std::string::npos);
}

TEST_CASE("names of classes are harmless, and lines keep to the width") {
  for (const unsigned width : {60U, 80U, 200U}) {
    const std::string text = text_of(sample(), 0, width);
    CHECK(text.find('\x1b') == std::string::npos);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= width);
  }
}

TEST_CASE("a runtime that was not read says why, one without arenas that it has none") {
  SnapshotMetadata metadata = sample();
  Runtime& python = metadata.runtimes.runtimes[0];
  python.areas = python.area_bytes = 0;
  CHECK(text_of(metadata, 0).find("arenas    none: all objects") != std::string::npos);
  python.why_not = "heapsnap does not know how Python 2.7 lays out its memory";
  metadata.runtimes.classes.clear();
  metadata.runtimes.pages.clear();
  CHECK(text_of(metadata, 0).find("not read, heapsnap does not know") != std::string::npos);
}

TEST_CASE("JSON has every class") {
  const SnapshotMetadata metadata = sample();
  const ObjectCensus census = take_object_census(metadata.runtimes, ObjectCensus::Order::kBytes);
  std::string text;
  Writer out(text);
  print_json_objects(out, {metadata, census, "a.hsnap"});
  out.flush();
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(simdjson::padded_string(text));
  CHECK(std::string_view(root["kind"]) == "objects");
  CHECK(std::string_view(root["runtimes"].at(0)["kind"]) == "python");
  CHECK(uint64_t(root["runtimes"].at(0)["used_bytes"]) == 48 << 20);
  REQUIRE(simdjson::dom::array(root["objects"]).size() == 3);
  const simdjson::dom::element first = root["objects"].at(0);
  CHECK(std::string_view(first["runtime"]) == "python");
  CHECK(std::string_view(first["type"]) == "Order");
  CHECK(uint64_t(first["count"]) == 1000);
  CHECK(uint64_t(first["bytes"]) == 3 << 20);
  CHECK(uint64_t(first["owned_bytes"]) == 1 << 20);
  CHECK(uint64_t(root["pages"].at(0)["free_slots"]) == 6200);
}

TEST_CASE("of contexts with a use, those of the names that have most come first") {
  SnapshotMetadata metadata;
  Runtime& postgres = metadata.runtimes.runtimes.emplace_back();
  postgres.kind = RuntimeKind::kPostgres;
  postgres.contexts = 40;
  const auto add = [&](const char* name, uint64_t bytes, unsigned number) {
    RuntimeContext& context = metadata.runtimes.contexts.emplace_back();
    context.name = name;
    context.ident = "use " + std::to_string(number);
    context.bytes = bytes;
    context.free_bytes = 1024;
  };
  // The larger ones are fewer.
  for (unsigned i = 0; i < 5; ++i) add("function", 16 << 10, i);
  for (unsigned i = 0; i < 30; ++i) add("plan", i == 20 ? 8 << 10 : 4 << 10, i);
  add("index", 2048, 0);
  const auto uses_of = [&](uint64_t limit) {
    const std::string text = text_of(metadata, limit);
    return text.substr(text.find("Contexts by what they are for\n"));
  };
  const std::string text = uses_of(6);
  CAPTURE(text);
  CHECK(text.find("Contexts by what they are for\n"
                  "      bytes      free  name      for\n"
                  "    8.0 KiB   1.0 KiB  plan      use 20\n"
                  "    4.0 KiB   1.0 KiB  plan      use 0\n"
                  "  112.0 KiB  28.0 KiB  plan      (28 more: --limit 0)\n"
                  "   16.0 KiB   1.0 KiB  function  use 0\n"
                  "   16.0 KiB   1.0 KiB  function  use 1\n"
                  "   48.0 KiB   3.0 KiB  function  (3 more: --limit 0)\n"
                  "    2.0 KiB   1.0 KiB  index     use 0\n") == 0);
  metadata.runtimes.contexts.front().name = "RelationCacheInit";
  CHECK(text_of(metadata, 0, 60).find("  contexts  name\n") != std::string::npos);
  CHECK(text_of(metadata, 0, 60).find("         1  RelationCacheIn") != std::string::npos);
  metadata.runtimes.contexts.front().name = "function";
  CHECK(uses_of(2).find("  2.0 KiB") == std::string::npos);
  CHECK(uses_of(2).find("  1 more name: --limit 0\n") != std::string::npos);
  CHECK(uses_of(0).find("more") == std::string::npos);
}
