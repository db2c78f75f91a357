#include "references/object_rows.h"

#include <doctest/doctest.h>

#include <vector>

#include "references/block_slack.h"

using namespace heapsnap;

namespace {

constexpr uint64_t kVptr = 0x7f0000301010;

// The words of a block, and what is looked for in them.
struct Row {
  std::vector<uint64_t> words;
  uint64_t usable = 0;

  explicit Row(std::vector<uint64_t> of) : words(std::move(of)), usable(words.size() * 8) {}
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words)); }
  bool is_row() const { return is_row_of_objects(bytes(), usable, 8); }
  bool is_counted() const {
    return !words.empty() && counted_vptr(words.front(), bytes(), 8) == kVptr &&
           is_counted_row_of_objects(bytes(), usable, 8);
  }
};

}  // namespace

TEST_CASE("a row of objects has the vptr at equal distances") {
  CHECK(Row({kVptr, 1, kVptr, 2, kVptr, 3}).is_row());
  CHECK(Row({kVptr, 1, 1, kVptr, 2, 2, kVptr, 3, 3, 0, 0, 0, 0, 0, 0}).is_row());
  CHECK(Row({kVptr, kVptr, kVptr}).is_row());
  SUBCASE("one of it is an object") {
    CHECK_FALSE(Row({kVptr}).is_row());
    CHECK_FALSE(Row({kVptr, 1, 2, 3, 4, 5, 6, 7}).is_row());
    CHECK_FALSE(Row({}).is_row());
  }
  SUBCASE("two are a row when they fill the block, else memory that was not written to") {
    CHECK(Row({kVptr, 1, 2, kVptr, 3, 4, 5}).is_row());
    CHECK_FALSE(Row({kVptr, 1, kVptr, 3, 0, 0, 0, 0, 0, 0, 0, 0}).is_row());
  }
  SUBCASE("unequal distances are chance") {
    CHECK_FALSE(Row({kVptr, 1, kVptr, 2, 3, kVptr, 0, 0, 0, 0, 0, 0}).is_row());
  }
  SUBCASE("of what is past the block nothing counts") {
    Row row({kVptr, 1, 2, kVptr, 4, 5, kVptr});
    row.usable = 24;
    CHECK_FALSE(row.is_row());
  }
  SUBCASE("of four bytes") {
    const std::vector<uint32_t> words = {0x8049000, 1, 0x8049000, 2, 0x8049000, 3};
    CHECK(is_row_of_objects(std::as_bytes(std::span(words)), 24, 4));
  }
}

TEST_CASE("an array of objects begins with their number") {
  CHECK(Row({2, kVptr, 1, kVptr, 2}).is_counted());
  CHECK(Row({3, kVptr, 1, kVptr, 2, kVptr, 3, 0, 0}).is_counted());
  SUBCASE("which is theirs") {
    CHECK_FALSE(Row({3, kVptr, 1, kVptr, 2}).is_counted());
    CHECK_FALSE(Row({2, kVptr, 1, kVptr, 2, kVptr, 3}).is_counted());
    CHECK_FALSE(Row({1, kVptr, 1, 0}).is_counted());
    CHECK_FALSE(Row({uint64_t{1} << 40, kVptr, kVptr}).is_counted());
  }
  SUBCASE("and fill the block") {
    CHECK_FALSE(Row({2, kVptr, 1, kVptr, 2, 0, 0, 0, 0, 0, 0}).is_counted());
    Row row({3, kVptr, 1, kVptr, 2, kVptr, 3});
    row.usable = 1000;
    CHECK_FALSE(row.is_counted());
  }
  SUBCASE("of which only the first may be known") {
    Row row({1000, kVptr, 1, kVptr, 2, kVptr, 3, kVptr});
    row.usable = 8 + 16000;
    CHECK(row.is_counted());
    row.words[0] = UINT32_MAX / 2;
    CHECK_FALSE(row.is_counted());
  }
  SUBCASE("each at its place") {
    CHECK_FALSE(Row({3, kVptr, 1, kVptr, 2, 9, kVptr}).is_counted());
    CHECK_FALSE(Row({2, kVptr, 1, 2, 3}).is_counted());
    CHECK_FALSE(Row({2, kVptr}).is_counted());
  }
}

TEST_CASE("a block is filled by what malloc would have given that much for") {
  CHECK(is_filled_by(24, 8));
  CHECK(is_filled_by(72, 72));
  CHECK(is_filled_by(72, 64));
  CHECK_FALSE(is_filled_by(72, 73));
  CHECK_FALSE(is_filled_by(72, 32));
  CHECK(is_filled_by((50 << 12) - 16, (49 << 12) + 1));
  CHECK_FALSE(is_filled_by((50 << 12) - 16, (48 << 12)));
  CHECK_FALSE(is_filled_by((50 << 12) - 24, (49 << 12) + 1));
}
