#include "report/diff_report.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/byte_units.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

DiffRow changed_row(std::string name, uint64_t before, uint64_t after) {
  DiffRow row;
  row.name = std::move(name);
  row.values = {Tally{1, before}, Tally{1, after}};
  row.growth = static_cast<double>(after) - static_cast<double>(before);
  return row;
}

// A variable that holds what grew and what shrank.
SnapshotDiff diff_of_entries(uint64_t old_entries_left) {
  SnapshotDiff diff;
  diff.is_one_process = diff.is_one_build = diff.is_in_time = true;
  diff.snapshots.resize(2);
  for (DiffSnapshot& snapshot : diff.snapshots) snapshot.process.pid = 42;
  DiffSection owners;
  owners.lacks.resize(2);
  owners.left_out.resize(2);
  owners.steps = 1;
  owners.rows = {changed_row("g_cache", 4 * kMiB, 6 * kMiB + old_entries_left),
                 changed_row("Entry", 1 * kMiB, 6 * kMiB),
                 changed_row("OldEntry", 3 * kMiB, old_entries_left)};
  owners.rows[0].held = {1, 2};
  owners.ranked = {0};
  owners.total = owners.rows[0];
  diff.in_use = diff.resident = owners.rows[0];
  diff.sections.push_back(std::move(owners));
  return diff;
}

std::string text_of(const SnapshotDiff& diff) {
  std::string text;
  Writer out(text);
  print_diff(out, {diff, {"a.hsnap", "b.hsnap"}, {}, {}}, 10, TextStyle{.width = 80});
  out.flush();
  return text;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("what grew leads to its owners, and to the objects and types that changed") {
  SnapshotDiff diff = diff_of_entries(0);
  CHECK(says(text_of(diff), "    heapsnap owners b.hsnap\n"));
  CHECK(!says(text_of(diff), "heapsnap types"));
  for (const DiffBy by : {DiffBy::kType, DiffBy::kClass}) {
    DiffSection section = diff.sections.front();
    section.by = by;
    diff.sections.push_back(std::move(section));
  }
  CHECK(says(text_of(diff), "    heapsnap types b.hsnap\n"));
  CHECK(says(text_of(diff), "    heapsnap objects b.hsnap\n"));
}

TEST_CASE("what grew by more than what holds it is followed by what shrank beside it") {
  std::string text = text_of(diff_of_entries(0));
  CAPTURE(text);
  CHECK(says(text,
             "  g_cache      4.0M  6.0M   +2.0M       0\n"
             "    Entry      1.0M  6.0M   +5.0M       0\n"
             "    OldEntry   3.0M     0   -3.0M       0\n"));
  // Without that, the largest part says enough.
  text = text_of(diff_of_entries(3 * kMiB));
  CHECK(says(text, "    Entry "));
  CHECK(!says(text, "OldEntry"));
}
