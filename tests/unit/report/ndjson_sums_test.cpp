#include "report/ndjson_sums.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <list>
#include <string_view>
#include <vector>

#include "tests/unit/report/sample_snapshot.h"
#include "tests/unit/report/sample_stacks.h"

using namespace heapsnap;
using test::HandmadeSnapshot;
using test::kMiB;

namespace {

// The lines, each parsed.
class Rows {
 public:
  explicit Rows(const HandmadeSnapshot& snapshot, const std::string& file = "/tmp/a.hsnap")
      : Rows(snapshot.streams(), nullptr, file) {}
  Rows(const SnapshotStreams& streams, const RecordedStacks* recorded, const std::string& file) {
    Writer out(text_);
    export_ndjson_sums(streams, recorded, nullptr, file, out);
    out.flush();
    REQUIRE(text_.ends_with('\n'));
    for (size_t begin = 0; begin < text_.size();) {
      const size_t end = text_.find('\n', begin);
      parsers_.emplace_back();
      rows_.push_back(parsers_.back().parse(text_.substr(begin, end - begin)));
      begin = end + 1;
    }
  }

  const std::vector<simdjson::dom::element>& all() const { return rows_; }
  simdjson::dom::element one(std::string_view kind, std::string_view name) const {
    for (const auto& row : rows_) {
      if (std::string_view(row["kind"]) == kind && std::string_view(row["name"]) == name) {
        return row;
      }
    }
    FAIL("no such row: " << std::string(name));
    return {};
  }

 private:
  std::string text_;
  std::list<simdjson::dom::parser> parsers_;
  std::vector<simdjson::dom::element> rows_;
};

HandmadeSnapshot collected() {
  HandmadeSnapshot snapshot = test::sample_snapshot();
  Process& process = snapshot.metadata.process;
  process.boot_id = "35cff4fb";
  process.start_time_ticks = 777;
  process.build_id = "ab12";
  snapshot.metadata.collection = Collection{"box/web/20260131T235959Z-4242.hsnap"};
  return snapshot;
}

}  // namespace

TEST_CASE("each row says of which process and time it is") {
  const Rows rows(collected());
  REQUIRE(rows.all().size() > 15);
  for (const auto& row : rows.all()) {
    CHECK(int64_t(row["version"]) == 1);
    CHECK(std::string_view(row["host"]) == "box");
    CHECK(std::string_view(row["target"]) == "web");
    CHECK(std::string_view(row["boot_id"]) == "35cff4fb");
    CHECK(int64_t(row["pid"]) == 4242);
    CHECK(uint64_t(row["start_time"]) == 777);
    CHECK(std::string_view(row["comm"]) == "server");
    CHECK(std::string_view(row["exe"]) == "/opt/server");
    CHECK(std::string_view(row["build_id"]) == "ab12");
    CHECK(std::string_view(row["taken_at"]) == "2026-01-31T23:59:59.123456789Z");
    CHECK(int64_t(row["taken_at_ms"]) == 1769903999123);
  }
}

TEST_CASE("the sums are those of the report, and the process comes last") {
  const Rows rows(collected());
  const test::SampleReport report(collected());
  CHECK(uint64_t(rows.one("account", "bins")["bytes"]) == report.account[RssRow::kBins].resident);
  CHECK(uint64_t(rows.one("account", "bins")["swapped"]) == report.account[RssRow::kBins].swapped);
  const auto size = rows.one("size", "1024 B");
  CHECK(uint64_t(size["size"]) == 1024);
  CHECK(uint64_t(size["blocks"]) == 2048);
  CHECK(uint64_t(size["bytes"]) == 2 * kMiB);
  CHECK(uint64_t(size["free_blocks"]) == 2048);
  CHECK(uint64_t(rows.one("size", "2 MiB to 4 MiB")["bytes"]) == 4 * kMiB);
  CHECK(uint64_t(rows.one("arena", "1")["bytes"]) == 8 * kMiB);
  CHECK(uint64_t(rows.one("arena", "1")["blocks"]) == 1);
  const auto last = rows.all().back();
  CHECK(std::string_view(last["kind"]) == "process");
  CHECK(uint64_t(last["bytes"]) == 30 * kMiB);
  CHECK(uint64_t(last["swapped"]) == 2 * kMiB);
  CHECK(std::string_view(last["snapshot"]) == "box/web/20260131T235959Z-4242.hsnap");
}

TEST_CASE("the chunks are read once, and the rows of sizes add up to the blocks in use") {
  const HandmadeSnapshot snapshot = collected();
  SnapshotStreams streams = snapshot.streams();
  size_t reads = 0;
  streams.read_chunks = [&, read = streams.read_chunks](ChunkSink& sink) {
    ++reads;
    read(sink);
  };
  const Rows rows(streams, nullptr, "a.hsnap");
  CHECK(reads == 1);
  Tally of_sizes;
  for (const auto& row : rows.all()) {
    if (std::string_view(row["kind"]) != "size") continue;
    of_sizes += {uint64_t(row["blocks"]), uint64_t(row["bytes"])};
  }
  CHECK(of_sizes == used_figures(test::SampleReport(snapshot).summary.totals).chunks);
}

TEST_CASE("what an older snapshot or a core does not say is null") {
  HandmadeSnapshot snapshot = test::sample_snapshot();
  snapshot.metadata.process.comm = "a\"b\n\x1b[2J\xff";
  const Rows rows(snapshot, "/srv/old.hsnap");
  for (const auto& row : rows.all()) {
    CHECK(row["boot_id"].is_null());
    CHECK(row["start_time"].is_null());
    CHECK(row["build_id"].is_null());
    CHECK(std::string_view(row["target"]) == "a\"b\n\x1b[2J\xef\xbf\xbd");
  }
  CHECK(std::string_view(rows.all().back()["snapshot"]) == "old.hsnap");
}

TEST_CASE("nothing is written of a snapshot whose references are damaged") {
  HandmadeSnapshot snapshot = test::sample_snapshot();
  snapshot.metadata.process.comm.assign(100'000, 'x');  // a row is more than a writer keeps
  const auto refuse = [](const auto&...) { throw Error(ErrorKind::kBadInput, "is damaged", ""); };
  const ReferenceStreams references{{}, {}, refuse, refuse, refuse};
  std::string text;
  Writer out(text);
  CHECK_THROWS_AS(export_ndjson_sums(snapshot.streams(), nullptr, &references, "a.hsnap", out),
                  Error);
  CHECK(text.empty());
}

TEST_CASE("stacks of the same functions are one row, whose id does not depend on addresses") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  const std::vector<uint64_t> sizes = {112, 112, 112, 112};
  const std::vector<ChunkState> states(4, ChunkState::kUsed);
  const std::vector<uint32_t> stacks = {2, 4, 2, 3};
  const std::vector<uint8_t> slacks(4, 4);
  const auto rows_of = [&](uint64_t moved) {
    test::SampleStacks sample;
    CallStacks& tables = sample.recorded.stacks;
    // make_node called from another line of main.
    tables.nodes.push_back({8, 0, Address(0x401140)});
    tables.sites.push_back({12, 2, 0, 10, 5, 1000, 500});
    SourceFrames& symbols = sample.recorded.symbols;
    const SourceFrame there[] = {
        {symbols.intern("fill(Node*)"), symbols.intern("/src/node.h"), 9, 0, true},
        {symbols.intern("make_node(int)"), symbols.intern("/src/tree.c"), 14, 0x20, false}};
    symbols.add(0, Address(0x401140), there);
    symbols.sort();
    tables.nodes[10].return_address += moved;  // of no file
    snapshot.metadata.tracker = sample.metadata.tracker;
    SnapshotStreams streams = snapshot.streams();
    streams.read_chunks = [&](ChunkSink& sink) {
      sink.on_batch({0, 0, Address(0x1000), sizes, states, stacks, slacks});
    };
    return Rows(streams, &sample.recorded, "a.hsnap");
  };
  HeapSegment segment;
  segment.range = {Address(0x1000), Address(0x2000)};
  snapshot.metadata.heap.segments.push_back(segment);
  const Rows rows = rows_of(0);
  const auto stack = rows.one("stack", "fill(Node*)");
  CHECK(uint64_t(stack["blocks"]) == 3);
  CHECK(uint64_t(stack["bytes"]) == 300);
  CHECK(uint64_t(stack["allocations"]) == 100);
  CHECK(uint64_t(stack["frees"]) == 31);
  CHECK(uint64_t(stack["allocated_bytes"]) == 10'000);
  CHECK(uint64_t(stack["freed_bytes"]) == 3100);
  const auto frames = rows.one("frames", "fill(Node*)");
  CHECK(std::string_view(frames["id"]) == std::string_view(stack["id"]));
  CHECK(simdjson::minify(frames["frames"]) ==
        "[\"fill(Node*)\",\"make_node(int)\",\"main\\u001b[31m\"]");
  const Rows elsewhere = rows_of(0x1000);
  const auto other = rows.one("stack", "tree+0x2222");
  CHECK(simdjson::minify(rows.one("frames", "tree+0x2222")["frames"]) ==
        "[\"tree+0x2222\",\"code of no file\"]");
  CHECK(std::string_view(elsewhere.one("stack", "tree+0x2222")["id"]) ==
        std::string_view(other["id"]));
}
