#include "analysis/diff_table.h"

#include <doctest/doctest.h>

#include <string>

using namespace heapsnap;

TEST_CASE("a table of rows is bounded, and says what it left out") {
  DiffTable table(8);
  const auto sums_of = [](uint64_t first, uint64_t count, uint64_t bytes) {
    KeyedSums sums;
    for (uint64_t i = first; i < first + count; ++i) {
      sums.add(KeyedSums::key_of(std::to_string(i)), {1, bytes + i}, static_cast<uint32_t>(i));
    }
    return sums;
  };
  const auto name_of = [](uint32_t number) { return std::to_string(number); };
  table.add(sums_of(0, 100, 0), name_of);
  CHECK(table.rows().size() == 4);  // half of it, for what comes later
  CHECK(table.rows().contains(KeyedSums::key_of("99")));
  CHECK(table.left_out().front().count == 96);
  CHECK(table.left_out().front().bytes == 95 * 96 / 2);
  table.add(sums_of(0, 98, 1000), name_of);
  CHECK(table.rows().size() == 6);
  const DiffTableRow& later = table.rows().at(KeyedSums::key_of("95"));
  CHECK(!later.values[0]);  // it may have been there
  CHECK(later.values[1] == Tally{1, 1095});
  const DiffTableRow& gone = table.rows().at(KeyedSums::key_of("99"));
  CHECK(gone.values[0] == Tally{1, 99});
  CHECK(gone.values[1] == Tally{});
  for (uint64_t i = 0; i < 20; ++i) table.add(sums_of(1000 * i, 50, 0), name_of);
  CHECK(table.rows().size() == 8);
}

TEST_CASE("names are cut between letters, and still told apart") {
  DiffTable table;
  KeyedSums sums;
  const std::string name = std::string(DiffTable::kMostNameBytes - 1, 'a') + "äb";
  sums.add(KeyedSums::key_of(name), {1, 1}, 0);
  sums.add(KeyedSums::key_of(name + "c"), {1, 2}, 1);
  table.add(sums, [&](uint32_t) { return name; });
  CHECK(table.rows().size() == 2);
  CHECK(table.rows().begin()->second.name == std::string(DiffTable::kMostNameBytes - 1, 'a') + "…");
}

TEST_CASE("a row has the sizes of its blocks in all snapshots") {
  DiffTable table;
  const uint64_t key = KeyedSums::key_of("texts");
  const uint64_t typed = KeyedSums::key_of("Entry");
  for (const uint64_t size : {200, 40, 56}) {
    KeyedSums sums;
    sums.add(key, {1, size}, 0, 0, 0, {size, size + 8});
    sums.add(key, {1, size}, 0, 0, 0, {size, size});
    sums.add(typed, {1, size}, 0);
    table.add(sums, [](uint32_t) { return "a row"; });
  }
  CHECK(table.rows().at(key).sizes.least == 40);
  CHECK(table.rows().at(key).sizes.most == 208);
  CHECK(table.rows().at(typed).sizes.most == 0);
}
