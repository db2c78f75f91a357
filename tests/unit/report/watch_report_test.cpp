#include "report/watch_report.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <algorithm>
#include <sstream>

#include "tests/unit/byte_units.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr int64_t kNoon_ns = 1'769'860'800'000'000'000;  // 2026-01-31T12:00:00Z
constexpr int64_t kSecond_ns = 1'000'000'000;

WatchRow row_at(int64_t at_ns) {
  WatchRow row;
  row.look.at_ns = at_ns;
  row.look.rss = 182 * kMiB + 700 * 1024;
  row.look.anonymous = 179 * kMiB;
  row.look.file = 3 * kMiB;
  row.look.threads = 5;
  row.look.malloc = MallocCounters{4, 170 * kMiB, 1, 8 * kMiB};
  row.rates.emplace();
  row.rates->seconds = 1;
  row.rates->rss = -static_cast<int64_t>(3 * kMiB / 2);
  return row;
}

WatchRow tracked_row(int64_t at_ns) {
  WatchRow row = row_at(at_ns);
  row.look.tracker.emplace();
  row.look.tracker->allocations = 3'000'000;
  row.look.tracker->allocated_bytes = 20 * kMiB;
  row.look.tracker->freed_bytes = 12 * kMiB;
  row.rates->live = static_cast<int64_t>(kMiB);
  row.rates->churn = 4 * kMiB;
  row.rates->allocations = 1'234'567;
  row.growth = static_cast<int64_t>(8 * kMiB);
  return row;
}

struct Printed {
  std::string text;
  Writer out{text};
  WatchTable table;

  explicit Printed(const WatchTable::Shape& shape, size_t width = 120, size_t height = 24)
      : table(out, Ink(false), shape) {
    table.fit(width, height);
  }
  std::vector<std::string> lines() {
    out.flush();
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
};

std::vector<std::string> words(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

bool is_header(const std::string& line) {
  return line.starts_with("2026-");
}

}  // namespace

TEST_CASE("a row of an untracked process") {
  Printed page({.has_malloc = true});
  page.table.add(row_at(kNoon_ns));
  WatchRow first = row_at(kNoon_ns + kSecond_ns);
  first.rates.reset();
  first.look.malloc.reset();
  page.table.add(first);
  const auto lines = page.lines();
  REQUIRE(lines.size() == 3);
  CHECK(words(lines[0]) == words("2026-01-31 rss rss/s anon file shmem swap thr malloc arenas"));
  CHECK(words(lines[1]) == words("12:00:00Z 182.7M -1.5M 179.0M 3.0M 0 0 5 178.0M 4"));
  CHECK(words(lines[2]) == words("12:00:01Z 182.7M - 179.0M 3.0M 0 0 5 - -"));
}

TEST_CASE("a row of a tracked process") {
  Printed page({.is_tracked = true, .has_growth = true, .time_digits = 2}, 200);
  page.table.add(tracked_row(kNoon_ns + kSecond_ns / 4));
  const auto lines = page.lines();
  REQUIRE(lines.size() == 2);
  CHECK(words(lines[0]) == words("2026-01-31 live live/s growth churn/s allocs/s rss rss/s anon "
                                 "file shmem swap thr"));
  CHECK(words(lines[1]) == words("12:00:00.25Z 8.0M +1.0M +8.0M 4.0M 1,234,567 182.7M -1.5M 179.0M "
                                 "3.0M 0 0 5"));
}

TEST_CASE("columns line up, and what does not fit the width is left out") {
  size_t columns_before = 0;
  for (const size_t width : {60U, 70U, 80U, 90U, 100U, 140U}) {
    CAPTURE(width);
    Printed page({.is_tracked = true, .has_malloc = true, .has_growth = true}, width);
    page.table.add(tracked_row(kNoon_ns));
    WatchRow large = tracked_row(kNoon_ns);
    large.look.rss = 1023 * kMiB + 950 * 1024;
    large.rates->rss = -static_cast<int64_t>(large.look.rss);
    large.look.threads = 32768;
    page.table.add(large);
    const auto lines = page.lines();
    for (const std::string& line : lines) {
      CHECK(line.size() <= width);
      CHECK(line.size() == lines.front().size());
    }
    const size_t columns = words(lines.front()).size();
    CHECK(columns >= columns_before);
    columns_before = columns;
    // What nobody can do without.
    for (const char* title : {"live", "growth", "churn/s", "rss"}) {
      const auto titles = words(lines.front());
      CHECK(std::count(titles.begin(), titles.end(), title) == 1);
    }
  }
  CHECK(columns_before == 15);
}

TEST_CASE("the header comes again for each screen, with a new date and with another width") {
  Printed page({}, 100, 10);
  for (int i = 0; i < 20; ++i) page.table.add(row_at(kNoon_ns));
  auto lines = page.lines();
  CHECK(std::count_if(lines.begin(), lines.end(), is_header) == 3);
  CHECK(is_header(lines[0]));
  CHECK(is_header(lines[8]));
  page.table.add(row_at(kNoon_ns + 12 * 3600 * kSecond_ns));
  lines = page.lines();
  CHECK(lines[lines.size() - 2].starts_with("2026-02-01"));
  page.table.fit(70, 10);
  page.table.add(row_at(kNoon_ns + 12 * 3600 * kSecond_ns));
  lines = page.lines();
  CHECK(is_header(lines[lines.size() - 2]));
  page.table.fit(70, 0);  // no terminal is that low
  page.table.add(row_at(kNoon_ns + 12 * 3600 * kSecond_ns));
  lines = page.lines();
  CHECK_FALSE(is_header(lines[lines.size() - 2]));
}

TEST_CASE("a snapshot and notes stand below their row, and cannot break the page") {
  Printed page({});
  WatchRow row = row_at(kNoon_ns);
  row.snapshot = WatchedSnapshot{"grew by 2.0 MiB", "/tmp/a\x1b.hsnap", 77'000, 1'200'000};
  row.notes = {"a note\n"};
  page.table.add(row);
  const auto lines = page.lines();
  REQUIRE(lines.size() == 4);
  CHECK(lines[2] == "  grew by 2.0 MiB: /tmp/a\\x1b.hsnap, 75.2 KiB, paused 1.2 ms");
  CHECK(lines[3] == "  a note\\x0a");
}

TEST_CASE("a line of JSON has what is known and nothing else") {
  const auto members_of = [](const WatchRow& row) {
    std::string text;
    Writer out(text);
    print_watch_json(out, 4242, "web\n", row);
    out.flush();
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    CHECK(text.ends_with("}\n"));
    return text;
  };
  simdjson::dom::parser parser;
  WatchRow row = row_at(kNoon_ns);
  row.rates.reset();
  row.look.malloc.reset();
  simdjson::dom::element json = parser.parse(members_of(row));
  CHECK(json["kind"].get_string().value() == "watch");
  CHECK(json["time"].get_string().value() == "2026-01-31T12:00:00.000Z");
  CHECK(json["comm"].get_string().value() == "web\n");
  CHECK(json["rss"].get_uint64().value() == row.look.rss);
  CHECK(json["anonymous"].get_uint64().value() == 179 * kMiB);
  for (const char* name : {"arenas", "live_bytes", "seconds", "snapshot", "notes"}) {
    CHECK(json[name].error() == simdjson::NO_SUCH_FIELD);
  }
  row = tracked_row(kNoon_ns);
  row.look.tracker->freed_bytes = 21 * kMiB;  // blocks from before it was tracked
  row.snapshot = WatchedSnapshot{"why", "path", 1, 2};
  row.notes = {"one", "two"};
  json = parser.parse(members_of(row));
  CHECK(json["arena_bytes"].get_uint64().value() == 170 * kMiB);
  CHECK(json["mmapped_bytes"].get_uint64().value() == 8 * kMiB);
  CHECK(json["live_bytes"].get_int64().value() == -static_cast<int64_t>(kMiB));
  CHECK(json["rss_per_s"].get_int64().value() == row.rates->rss);
  CHECK(json["churn_per_s"].get_uint64().value() == 4 * kMiB);
  CHECK(json["snapshot"].get_string().value() == "path");
  CHECK(json["notes"].get_array().size() == 2);
}
