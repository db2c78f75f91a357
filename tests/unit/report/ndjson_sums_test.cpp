#include "report/ndjson_sums.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <list>
#include <string_view>
#include <vector>

#include "tests/unit/report/sample_snapshot.h"

using namespace heapsnap;
using test::HandmadeSnapshot;
using test::kMiB;

namespace {

// The lines, each parsed.
class Rows {
 public:
  explicit Rows(const HandmadeSnapshot& snapshot, const std::string& file = "/tmp/a.hsnap") {
    Writer out(text_);
    export_ndjson_sums(snapshot.streams(), nullptr, file, out);
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
