#include "report/ndjson_export.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <vector>

#include "tests/unit/report/sample_snapshot.h"

using namespace heapsnap;
using test::HandmadeSnapshot;

namespace {

std::string exported(const HandmadeSnapshot& snapshot) {
  std::string text;
  Writer out(text);
  export_ndjson(snapshot.streams(), nullptr, out);
  out.flush();
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    REQUIRE(end != std::string::npos);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

TEST_CASE("the first line says what the snapshot is of") {
  const std::vector<std::string> lines = lines_of(exported(test::sample_snapshot()));
  simdjson::dom::parser parser;
  const simdjson::dom::element first = parser.parse(simdjson::padded_string(lines[0]));
  CHECK(std::string_view(first["kind"]) == "snapshot");
  CHECK(int64_t(first["version"]) == 1);
  CHECK(int64_t(first["pid"]) == 4242);
  CHECK(std::string_view(first["comm"]) == "server");
  CHECK(std::string_view(first["exe"]) == "/opt/server");
  CHECK(std::string_view(first["glibc"]) == "2.36");
  CHECK(std::string_view(first["discovery"]) == "debug-symbol");
  CHECK(std::string_view(first["freeze"]) == "fork");
  CHECK(uint64_t(first["pause_us"]) == 1900);
  CHECK(uint64_t(first["rss"]) == 30 * test::kMiB);
  CHECK(std::string_view(first["taken_at"]) == "2026-01-31T23:59:59.123456789Z");
}

TEST_CASE("a line a chunk, as malloc's callers know it") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_arena(false);
  snapshot.add_segment(0, SegmentKind::kBrk, 0x55d0c8a00000,
                       {{48, ChunkState::kUsed},
                        {32, ChunkState::kTcache},
                        {1040, ChunkState::kLargebin},
                        {16, ChunkState::kFence},
                        {0x20000, ChunkState::kTop},
                        {4, ChunkState::kUsed}});
  snapshot.add_segment(1, SegmentKind::kThreadHeap, 0x7e0000000000, {{64, ChunkState::kUsed}});
  snapshot.mmapped.push_back({Address(0x7f0000000000), Address(0x7f0000000ff0), 0x41000, 0x40010,
                              0x40000, ChunkState::kMmapped, 0});
  const std::vector<std::string> lines = lines_of(exported(snapshot));
  REQUIRE(lines.size() == 9);
  CHECK(
      lines[1] ==
      R"({"kind":"chunk","addr":"0x55d0c8a00010","size":48,"usable":40,"state":"used","arena":0})");
  CHECK(
      lines[2] ==
      R"({"kind":"chunk","addr":"0x55d0c8a00040","size":32,"usable":24,"state":"tcache","arena":0})");
  CHECK(
      lines[3] ==
      R"({"kind":"chunk","addr":"0x55d0c8a00060","size":1040,"usable":1032,"state":"largebin","arena":0})");
  CHECK(
      lines[4] ==
      R"({"kind":"chunk","addr":"0x55d0c8a00470","size":16,"usable":0,"state":"fence","arena":0})");
  CHECK(
      lines[5] ==
      R"({"kind":"chunk","addr":"0x55d0c8a00480","size":131072,"usable":0,"state":"top","arena":0})");
  CHECK(lines[6] ==
        R"({"kind":"chunk","addr":"0x55d0c8a20480","size":4,"usable":0,"state":"used","arena":0})");
  CHECK(
      lines[7] ==
      R"({"kind":"chunk","addr":"0x7e0000000010","size":64,"usable":56,"state":"used","arena":1})");
  CHECK(
      lines[8] ==
      R"({"kind":"chunk","addr":"0x7f0000001000","size":262160,"usable":262144,"state":"mmapped","arena":-1})");
}

TEST_CASE("32-bit pointers lie 8 bytes behind the header") {
  HandmadeSnapshot snapshot;
  snapshot.metadata.process.machine = Machine::kI386;
  snapshot.add_arena(true);
  snapshot.add_segment(0, SegmentKind::kBrk, 0x8000, {{24, ChunkState::kUsed}});
  CHECK(lines_of(exported(snapshot))[1] ==
        R"({"kind":"chunk","addr":"0x8008","size":24,"usable":20,"state":"used","arena":0})");
}

TEST_CASE("hostile names and the largest numbers still give lines of JSON") {
  simdjson::dom::parser parser;
  const std::string names[] = {"\"},{\"kind\":\"chunk\"}",
                               "a\nb\r\n",
                               std::string("\0x", 2),
                               "\xff\xfe\xc3",
                               "\x1b[31m",
                               "\\",
                               "\xed\xa0\x80",
                               "\xe2\x80\xa8",
                               std::string(100000, '"')};
  for (const std::string& name : names) {
    HandmadeSnapshot snapshot = test::sample_snapshot();
    snapshot.metadata.process.comm = name;
    snapshot.metadata.process.exe = name;
    snapshot.metadata.process.hostname = name;
    snapshot.metadata.heap.instances[0].build_id = name;
    snapshot.metadata.process.taken_at_ns = INT64_MIN;
    snapshot.metadata.process.rss = UINT64_MAX;
    snapshot.batches = {{INT32_MIN,
                         0,
                         Address(UINT64_MAX - 15),
                         {UINT64_MAX, UINT64_MAX},
                         {ChunkState::kUsed, static_cast<ChunkState>(250)}}};
    snapshot.mmapped = {
        {{}, Address(UINT64_MAX), UINT64_MAX, UINT64_MAX, UINT64_MAX, ChunkState::kUnknown, 0}};
    const std::vector<std::string> lines = lines_of(exported(snapshot));
    REQUIRE(lines.size() == 4);
    for (const std::string& line : lines) {
      CHECK(parser.parse(simdjson::padded_string(line)).error() == simdjson::SUCCESS);
    }
  }
}

TEST_CASE("a process without malloc gives one line") {
  HandmadeSnapshot snapshot;
  snapshot.metadata.heap.instances.clear();
  const std::vector<std::string> lines = lines_of(exported(snapshot));
  REQUIRE(lines.size() == 1);
  simdjson::dom::parser parser;
  const simdjson::dom::element first = parser.parse(simdjson::padded_string(lines[0]));
  CHECK(std::string_view(first["discovery"]) == "none");
}
