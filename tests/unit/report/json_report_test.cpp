#include "report/json_report.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include "tests/unit/report/sample_snapshot.h"

using namespace heapsnap;
using test::kMiB;
using test::SampleReport;

namespace {

std::string json_of(const SampleReport& report) {
  std::string text;
  Writer out(text);
  print_json_report(out, report.input());
  out.flush();
  return text;
}

}  // namespace

TEST_CASE("the JSON report holds the facts, exactly") {
  const SampleReport report(test::sample_snapshot());
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(simdjson::padded_string(json_of(report)));
  CHECK(std::string_view(root["kind"]) == "report");
  CHECK(int64_t(root["version"]) == 1);
  CHECK(int64_t(root["pid"]) == 4242);
  CHECK(std::string_view(root["snapshot"]) == "server.hsnap");
  CHECK(uint64_t(root["snapshot_bytes"]) == 12345);
  CHECK(uint64_t(root["freeze"]["pause_ns"]) == 1900000);
  CHECK(std::string_view(root["freeze"]["notes"].at(0)) == "one thread slept in epoll_wait");

  const simdjson::dom::element libc = root["mallocs"].at(0);
  CHECK(std::string_view(libc["main_arena"]) == "0x7f0000100000");
  CHECK(uint64_t(libc["n_mmaps"]) == 1);
  CHECK(uint64_t(libc["mmapped_count"]) == 1);
  CHECK(uint64_t(libc["mmapped_bytes"]) == kMiB);

  uint64_t resident = 0;
  uint64_t swapped = 0;
  for (const auto& [name, row] : simdjson::dom::object(root["rss"]["rows"])) {
    resident += uint64_t(row["resident"]);
    swapped += uint64_t(row["swapped"]);
  }
  CHECK(resident == uint64_t(root["rss"]["resident"]));
  CHECK(swapped == uint64_t(root["rss"]["swapped"]));
  CHECK(swapped == 2 * kMiB);
  CHECK(uint64_t(root["rss"]["rows"]["tcache"]["resident"]) == kMiB);
  CHECK(uint64_t(root["rss"]["rows"]["unwalked"]["resident"]) == 4 * kMiB);

  CHECK(uint64_t(root["states"]["tcache"]["count"]) == 1024);
  CHECK(uint64_t(root["states"]["top"]["swapped"]) == 2 * kMiB);
  CHECK(uint64_t(root["trim"]["bins"]) == report.summary.trim.bins);
  CHECK(uint64_t(root["kept"]["other_tops"]) == 2 * kMiB);
  CHECK(std::string_view(root["rss"]["largest_files"].at(0)["name"]) == "/opt/server");
  CHECK(simdjson::dom::array(root["rss"]["other_anonymous"]).size() == 0);
  CHECK(std::string_view(root["next_step"]["subject"]) == "damage");
  CHECK(std::string_view(root["next_step"]["commands"].at(0)) == "heapsnap report server.hsnap");
  CHECK(std::string_view(root["advice"].at(0)["kind"]) == "trim");
  CHECK(uint64_t(root["advice"].at(0)["bytes"]) == report.advice[0].bytes);

  const simdjson::dom::element arena = root["arenas"].at(1);
  CHECK(bool(arena["locked"]));
  CHECK_FALSE(bool(arena["main"]));
  CHECK(uint64_t(arena["system_mem"]) == 8 * kMiB);
  CHECK(uint64_t(arena["states"]["used"]["bytes"]) == 2 * kMiB);
  CHECK(double(root["arenas"].at(0)["free_share"]) == doctest::Approx(2.0 / 3));
  CHECK(std::string_view(root["segments"].at(1)["segment_kind"]) == "thread-heap");
  CHECK(std::string_view(root["largest_used"].at(2)["addr"]) == "0x7f0000000010");
  CHECK(int64_t(root["largest_used"].at(2)["arena"]) == -1);
  CHECK(uint64_t(root["common_sizes"].at(0)["used"]["count"]) == 2048);
  CHECK(std::string_view(root["corruptions"].at(0)["where"]) == "0x7e0000400000");
  CHECK(int64_t(root["thread_caches"].at(1)["arena"]) == -1);
}

TEST_CASE("the JSON report has the largest owners, or why it has none") {
  test::HandmadeSnapshot snapshot = test::sample_snapshot();
  snapshot.metadata.references.emplace().why_not = "it would have taken 2 s";
  SampleReport report(snapshot);
  simdjson::dom::parser parser;
  simdjson::dom::element root = parser.parse(simdjson::padded_string(json_of(report)));
  CHECK(std::string_view(root["why_no_references"]) == "it would have taken 2 s");
  CHECK(root["owners"].error() == simdjson::NO_SUCH_FIELD);

  report.owners = test::sample_owners();
  root = parser.parse(simdjson::padded_string(json_of(report)));
  CHECK(root["why_no_references"].error() == simdjson::NO_SUCH_FIELD);
  REQUIRE(simdjson::dom::array(root["owners"]).size() == 3);
  CHECK(std::string_view(root["owners"].at(0)["root"]) == "g_cache\x1b");
  CHECK(std::string_view(root["owners"].at(0)["module"]) == "/opt/server");
  CHECK(uint64_t(root["owners"].at(0)["retained_bytes"]) == 60 * kMiB);
  CHECK(uint64_t(root["owners"].at(0)["retained_blocks"]) == 1'204'118);
  CHECK(std::string_view(root["owners"].at(1)["kind"]) == "several");
  CHECK(std::string_view(root["owners"].at(2)["kind"]) == "stack");
  CHECK(int64_t(root["owners"].at(2)["tid"]) == 4243);
  CHECK(uint64_t(root["leaked_blocks"]) == 2);
  CHECK(uint64_t(root["leaked_bytes"]) == kMiB);
  CHECK(uint64_t(root["bytes_in_use"]) == 100 * kMiB);
  CHECK(std::string_view(root["owner_commands"].at(1)) == "heapsnap leaks server.hsnap");
}

TEST_CASE("hostile text of a target stays text") {
  test::HandmadeSnapshot snapshot = test::sample_snapshot();
  const std::string hostile("\",\"pid\":1,\"\x1b\n\xff\0", 15);
  snapshot.metadata.process.comm = hostile;
  snapshot.metadata.process.command_line = hostile;
  snapshot.metadata.heap.instances[0].module = hostile;
  snapshot.metadata.heap.foreign_allocator = hostile;
  snapshot.metadata.heap.corruptions[0].what = hostile;
  snapshot.metadata.notes = {hostile};
  simdjson::dom::parser parser;
  const simdjson::dom::element root =
      parser.parse(simdjson::padded_string(json_of(SampleReport(snapshot))));
  CHECK(int64_t(root["pid"]) == 4242);
  const std::string expected("\",\"pid\":1,\"\x1b\n\uFFFD\0", 17);
  CHECK(std::string_view(root["comm"]) == expected);
  CHECK(std::string_view(root["notes"].at(0)) == expected);
}

TEST_CASE("an empty process gives a whole report") {
  test::HandmadeSnapshot snapshot;
  snapshot.metadata.heap.instances.clear();
  simdjson::dom::parser parser;
  const simdjson::dom::element root =
      parser.parse(simdjson::padded_string(json_of(SampleReport(snapshot))));
  CHECK(std::string_view(root["rss"]["basis"]) == "virtual");
  CHECK(simdjson::dom::array(root["arenas"]).size() == 0);
}
