#include "report/diff_report.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/byte_units.h"
#include "tests/unit/report/says.h"

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

std::string text_of(const SnapshotDiff& diff,
                    const std::vector<std::string>& paths = {"a.hsnap", "b.hsnap"},
                    size_t limit = 10, bool may_run = true) {
  std::string text;
  Writer out(text);
  print_diff(out, {diff, paths, {}, {}, may_run}, limit, TextStyle{.width = 80});
  out.flush();
  return text;
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

TEST_CASE("each part of a change has its row, whether it grew or shrank") {
  SnapshotDiff diff = diff_of_entries(0);
  DiffSection& owners = diff.sections.front();
  owners.rows = {changed_row("main", 1 * kMiB, 9 * kMiB),  changed_row("queue", 0, 4 * kMiB),
                 changed_row("index", 1 * kMiB, 4 * kMiB), changed_row("postings", 0, 2 * kMiB),
                 changed_row("words", 0, kMiB - 1),        changed_row("jobs", 0, 4 * kMiB)};
  owners.rows[0].held = {2, 4, 1};
  owners.rows[1].held = {5};
  owners.rows[2].held = {3};
  CAPTURE(text_of(diff));
  CHECK(says(text_of(diff),
             "  main           1.0M  9.0M   +8.0M       0\n"
             "    queue           0  4.0M   +4.0M       0\n"
             "      jobs          0  4.0M   +4.0M       0\n"
             "    index        1.0M  4.0M   +3.0M       0\n"
             "      postings      0  2.0M   +2.0M       0\n"
             "  1 more row below these: --by owner --limit 0\n\n"));
  for (DiffRow& row : owners.rows) {
    std::swap(row.values.front(), row.values.back());
    row.growth = -row.growth;
  }
  CHECK(says(text_of(diff),
             "  main           9.0M  1.0M   -8.0M       0\n"
             "    queue        4.0M     0   -4.0M       0\n"
             "      jobs       4.0M     0   -4.0M       0\n"
             "    index        4.0M  1.0M   -3.0M       0\n"
             "      postings   2.0M     0   -2.0M       0\n"
             "  1 more row below these: --by owner --limit 0\n\n"));
}

TEST_CASE("without a limit, each row that changed is there, however little and whichever way") {
  SnapshotDiff diff = diff_of_entries(0);
  DiffSection& owners = diff.sections.front();
  owners.rows = {changed_row("main", 1 * kMiB, 9 * kMiB), changed_row("queue", 0, 8 * kMiB),
                 changed_row("jobs", 0, 8 * kMiB),        changed_row("texts", 0, 7 * kMiB),
                 changed_row("words", 0, 6 * kMiB),       changed_row("names", 0, 1024),
                 changed_row("old", 2048, 1024),          changed_row("g_other", 0, 512)};
  owners.rows[0].held = {1, 5, 6};
  owners.rows[1].held = {2};
  owners.rows[2].held = {3};
  owners.rows[3].held = {4};
  owners.ranked = {0, 7};
  const std::string all = text_of(diff, {"a.hsnap", "b.hsnap"}, 0);
  CAPTURE(all);
  CHECK(says(all,
             "  main            1.0M  9.0M   +8.0M       0\n"
             "    queue            0  8.0M   +8.0M       0\n"
             "      jobs           0  8.0M   +8.0M       0\n"
             "        texts        0  7.0M   +7.0M       0\n"
             "          words      0  6.0M   +6.0M       0\n"
             "    names            0  1.0K   +1.0K       0\n"
             "    old           2.0K  1.0K   -1.0K       0\n"
             "  g_other            0   512    +512       0\n\n"));
  const std::string one = text_of(diff, {"a.hsnap", "b.hsnap"}, 1);
  CAPTURE(one);
  CHECK(says(one,
             "        texts      0  7.0M   +7.0M       0\n"
             "  1 more changed: --by owner --limit 0\n"
             "  3 more rows below these: --by owner --limit 0\n\n"));
}

TEST_CASE("blocks without a type are called by their sizes, as among the owners") {
  SnapshotDiff diff = diff_of_entries(0);
  DiffRow& entry = diff.sections.front().rows[1];
  entry.name = "arrays of references";
  entry.sizes = {8184, 8184};
  CHECK(says(text_of(diff), "\n    8,184 bytes, arrays of references   1.0M  6.0M "));
  entry.sizes = {24, 56};
  CHECK(says(text_of(diff), "\n    24 to 56 bytes, arrays of references   1.0M  6.0M "));
}

TEST_CASE("what no root leads to is said where either snapshot has some") {
  SnapshotDiff diff = diff_of_entries(0);
  for (DiffSnapshot& snapshot : diff.snapshots) snapshot.leaked = snapshot.garbage = Tally{};
  CHECK(!says(text_of(diff), "  garbage "));
  diff.snapshots.back().garbage = Tally{3, 2 * kMiB};
  CHECK(says(text_of(diff), "  garbage   2.0 MiB, +2.0 MiB\n"));
  CHECK(!says(text_of(diff), "  leaked "));
  std::swap(diff.snapshots.front(), diff.snapshots.back());
  CHECK(says(text_of(diff), "  garbage   0 B, -2.0 MiB\n"));
  std::string json;
  Writer out(json);
  print_json_diff(out, {diff, {"a.hsnap", "b.hsnap"}, {}, {}});
  out.flush();
  CHECK(says(json, "\"garbage_blocks\":3,\"garbage_bytes\":2097152,"));
}

TEST_CASE(
    "where the process came to be tracked in between, the newer snapshot is the one to keep") {
  SnapshotDiff diff = diff_of_entries(0);
  DiffSection stacks = diff.sections.front();
  stacks.by = DiffBy::kStack;
  stacks.rows.clear();
  stacks.ranked.clear();
  stacks.lacks = {DiffLack::kStacks, DiffLack::kNone};
  stacks.steps = 0;
  diff.sections.push_back(stacks);
  CHECK(says(text_of(diff),
             "  call stacks: a.hsnap is of a process that was not tracked. It is tracked by\n"
             "  now: to compare call stacks, take another snapshot later, and compare with\n"
             "  that:\n"
             "    heapsnap attach 42 -o later.hsnap\n"
             "    heapsnap diff b.hsnap later.hsnap\n"));
  CHECK(!says(text_of(diff), "heapsnap inject"));
  diff.sections.back().lacks = {DiffLack::kStacks, DiffLack::kStacks};
  CHECK(says(text_of(diff),
             "  call stacks: a.hsnap and b.hsnap are of a process that was not tracked. To\n"
             "  compare call stacks, load the tracker before the process grows, and take both\n"
             "  snapshots after that:\n"
             "    heapsnap inject 42\n"));
  CHECK(says(text_of(diff, {"a.hsnap", "b.hsnap"}, 10, false),
             "  call stacks: a.hsnap and b.hsnap are of a process that was not tracked.\n"
             "  Process 42 does not run here. To compare call stacks, start it under heapsnap:\n"
             "    heapsnap run -- COMMAND\n"));
  // Two that are tracked have been compared.
  SnapshotDiff longer = diff;
  longer.snapshots.push_back(longer.snapshots.back());
  for (DiffSection& section : longer.sections) {
    section.left_out.resize(3);
    for (DiffRow& row : section.rows) row.values.push_back(row.values.back());
  }
  longer.sections.back().lacks = {DiffLack::kStacks, DiffLack::kNone, DiffLack::kNone};
  longer.sections.back().steps = 1;
  const std::string partly = text_of(longer, {"a.hsnap", "b.hsnap", "c.hsnap"});
  CHECK(says(partly, "Not compared\n  call stacks, in some of the snapshots: a.hsnap is"));
  CHECK(!says(partly, "later.hsnap"));
  CHECK(!says(partly, "heapsnap inject"));
  // Of another process that was not tracked, the tracked one says nothing.
  diff.sections.back().lacks = {DiffLack::kStacks, DiffLack::kNone};
  diff.is_one_process = false;
  diff.snapshots.front().process.pid = 41;
  CHECK(says(text_of(diff), "    heapsnap inject 41\n"));
  diff.snapshots.front().method = diff.snapshots.back().method = FreezeMethod::kCore;
  CHECK(says(text_of(diff), "start it under heapsnap:\n    heapsnap run -- COMMAND\n"));
}

TEST_CASE("where nothing was compared, the next step compares the rest") {
  SnapshotDiff diff = diff_of_entries(0);
  diff.sections.front().by = DiffBy::kStack;
  diff.sections.front().lacks = {DiffLack::kStacks, DiffLack::kStacks};
  diff.sections.front().ranked.clear();
  diff.sections.front().steps = 0;
  std::string text;
  Writer out(text);
  print_diff(out, {diff, {"a.hsnap", "b.hsnap"}, DiffBy::kStack, {}}, 10, TextStyle{.width = 80});
  out.flush();
  CHECK(
      text.ends_with("What next\n"
                     "  Nothing was compared, for the reason above. To compare what they do tell:\n"
                     "    heapsnap diff a.hsnap b.hsnap\n"));
}

TEST_CASE("leaks are the next step where some are left, and a row loses its outermost callers") {
  SnapshotDiff diff = diff_of_entries(0);
  diff.sections.front().by = DiffBy::kLeak;
  diff.sections.front().rows[0].name =
      "cycles with connect_peers(int) ← worker(int) ← std::__invoke_impl(int) ← server+0xd4490()";
  diff.sections.front().rows[0].held.clear();
  diff.snapshots.front().leaked = Tally{2, 4096};
  diff.snapshots.back().leaked = Tally{1, 64};
  CHECK(says(text_of(diff), "  cycles with connect_peers(int) ← worker(int) ← …  "));
  CHECK(says(text_of(diff), "    heapsnap leaks b.hsnap\n"));
  diff.snapshots.back().leaked = Tally{};
  CHECK(!says(text_of(diff), "heapsnap leaks"));
}

TEST_CASE("where no owner changed, the next step does not lead to those that did") {
  SnapshotDiff diff = diff_of_entries(0);
  CHECK(says(text_of(diff), "what the largest of them hold"));
  DiffSection account = diff.sections.front();
  account.by = DiffBy::kAccount;
  diff.sections.front().ranked.clear();
  diff.sections.push_back(std::move(account));
  // More is in use, which no owner tells.
  CHECK(says(text_of(diff),
             "  To see what holds the blocks in use, also what did not change:\n"
             "    heapsnap owners b.hsnap\n"));
  diff.in_use = changed_row("in use", 4 * kMiB, 4 * kMiB);
  const std::string text = text_of(diff);
  CHECK(says(text,
             "What next\n"
             "  The program has as much in use as before, and 2.0 MiB more resident. To\n"
             "  compare once the process has grown:\n"
             "    heapsnap attach --references yes 42 -o later.hsnap\n"
             "    heapsnap diff b.hsnap later.hsnap\n"));
  CHECK(says(text, "    heapsnap report b.hsnap\n"));
  CHECK(!says(text, "heapsnap owners"));
  diff.resident = changed_row("resident", 300 * kMiB, 90 * kMiB);
  CHECK(says(text_of(diff), "as before, and 210.0 MiB less resident."));
  diff.resident = changed_row("resident", 300 * kMiB, 300 * kMiB + 4096);
  CHECK(says(text_of(diff), "as before. To compare"));
}

TEST_CASE("the share of what shrank has its sign") {
  SnapshotDiff diff = diff_of_entries(0);
  diff.resident = changed_row("resident", 8 * kMiB, 2 * kMiB);
  CHECK(says(text_of(diff), "2.0 MiB, -6.0 MiB (-75.0 %)\n"));
  CHECK(says(text_of(diff), ", +2.0 MiB (50.0 %)"));
}

TEST_CASE("growth as small as that of churn leads to one more snapshot") {
  SnapshotDiff diff = diff_of_entries(0);
  diff.in_use = changed_row("in use", 400 * kMiB, 400 * kMiB + 1000);
  diff.resident = changed_row("resident", 500 * kMiB, 499 * kMiB);
  CHECK(says(text_of(diff),
             "What next\n"
             "  The process has hardly grown: by less than 1 % and 1 MiB, in use and resident.\n"
             "  To tell slow growth from churn, take one more snapshot later, and see what\n"
             "  grew in each step:\n"
             "    heapsnap attach 42 -o later.hsnap\n"
             "    heapsnap diff a.hsnap b.hsnap later.hsnap\n"
             "  To see what holds the blocks in use:\n"
             "    heapsnap owners b.hsnap\n"));
  diff.in_use = changed_row("in use", 400 * kMiB, 300 * kMiB);
  CHECK(says(text_of(diff), "  The process has not grown, neither in use nor resident."));
  // Either grows by too much for that.
  diff.resident = changed_row("resident", 500 * kMiB, 502 * kMiB);
  CHECK(!says(text_of(diff), "later.hsnap"));
  diff.resident = diff.in_use;
  diff.in_use = changed_row("in use", kMiB, kMiB + 20'000);
  CHECK(!says(text_of(diff), "later.hsnap"));
  // It grows a little in each step.
  diff.in_use = changed_row("in use", 400 * kMiB, 400 * kMiB + 1000);
  diff.in_use.only_grows = true;
  CHECK(!says(text_of(diff), "later.hsnap"));
}
