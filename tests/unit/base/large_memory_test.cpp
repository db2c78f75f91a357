#include "base/large_memory.h"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

using namespace heapsnap;

TEST_CASE_TEMPLATE("a large array keeps its values while it grows and shrinks", Array,
                   LargeArray<uint32_t>, LargeArray<uint32_t, Pages::kSmall>) {
  // 2 MiB, from which on it is a mapping, lies on the way.
  Array array;
  constexpr uint32_t kValues = 5'000'000;
  for (uint32_t i = 0; i < kValues; ++i) array.push_back(i);
  REQUIRE(array.size() == kValues);
  const auto is_whole = [&] {
    for (uint32_t i = 0; i < array.size(); ++i) {
      if (array[i] != i) return false;
    }
    return true;
  };
  CHECK(is_whole());
  array.shrink();
  CHECK(array.bytes() == kValues * sizeof(uint32_t));
  CHECK(is_whole());
  array.truncate(1000);
  array.shrink();
  CHECK(array.bytes() == 4000);
  CHECK(is_whole());
  std::vector<uint32_t> more(3'000'000);
  std::iota(more.begin(), more.end(), 1000);
  array.append(more);
  CHECK(array.size() == 3'001'000);
  CHECK(is_whole());
  array.release();
  CHECK(array.empty());
}

TEST_CASE("zeros are appended where other values were") {
  for (const uint32_t size : {3U, 3'000'000U}) {
    LargeArray<uint32_t> array;
    array.append(std::vector<uint32_t>(size, 7));
    array.truncate(1);
    array.append_zeros(size);
    REQUIRE(array.size() == size + 1);
    CHECK(array[0] == 7);
    CHECK(std::accumulate(array.begin(), array.end(), uint64_t{0}) == 7);
  }
}

TEST_CASE("a large array begins as zeros and can be moved") {
  for (const size_t size : {0U, 10U, 3'000'000U}) {
    LargeArray<uint64_t> array(size);
    CHECK(std::accumulate(array.begin(), array.end(), uint64_t{0}) == 0);
    if (size > 0) array.back() = 7;
    LargeArray<uint64_t> other = std::move(array);
    REQUIRE(other.size() == size);
    if (size > 0) CHECK(other[size - 1] == 7);
    other = LargeArray<uint64_t>();
    CHECK(other.empty());
  }
}
