#include "heap/walk/sorted_addresses.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <utility>
#include <vector>

using namespace heapsnap;

namespace {

using Word = std::pair<uint64_t, ChunkState>;

std::vector<Word> words_of(const SortedAddresses& sorted) {
  std::vector<Word> words;
  for (SortedAddresses::Cursor at(sorted); !at.at_end(); at.next()) {
    words.emplace_back(at.address().value(), at.state());
  }
  return words;
}

}  // namespace

TEST_CASE("addresses come back sorted, from memory and from any number of spilled runs") {
  for (const size_t buffer : {size_t{1}, size_t{7}, size_t{5000}, size_t{100000}}) {
    CAPTURE(buffer);
    std::mt19937_64 random(5);
    SortedAddresses sorted(buffer);
    std::vector<Word> expected;
    const size_t count = buffer == 1 ? 300 : 50000;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t address = 0x7f0000000000 + (random() % (1ULL << 34) & ~7ULL);
      const auto state = static_cast<ChunkState>(1 + random() % 3);
      sorted.add(Address(address), state);
      expected.emplace_back(address, state);
    }
    sorted.finish();
    CHECK(sorted.size() == count);
    std::sort(expected.begin(), expected.end());
    CHECK(words_of(sorted) == expected);
    CHECK(words_of(sorted) == expected);  // a cursor uses nothing up
  }
}

TEST_CASE("equal addresses come as often as they were added") {
  for (const size_t buffer : {size_t{2}, size_t{1000}}) {
    SortedAddresses sorted(buffer);
    for (unsigned i = 0; i < 3; ++i) sorted.add(Address(0x1000), ChunkState::kTcache);
    sorted.add(Address(0x1000), ChunkState::kUnsorted);
    sorted.add(Address(0x20), ChunkState::kFastbin);
    sorted.finish();
    CHECK(words_of(sorted) == std::vector<Word>{{0x20, ChunkState::kFastbin},
                                                {0x1000, ChunkState::kTcache},
                                                {0x1000, ChunkState::kTcache},
                                                {0x1000, ChunkState::kTcache},
                                                {0x1000, ChunkState::kUnsorted}});
  }
}

TEST_CASE("where no run can be written, memory has to do") {
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  SortedAddresses sorted(100);
  for (uint64_t i = 0; i < 150; ++i) sorted.add(Address(8 * (1000 - i)), ChunkState::kTcache);
  const rlimit none{0, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
  for (uint64_t i = 150; i < 1000; ++i) sorted.add(Address(8 * (1000 - i)), ChunkState::kTcache);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
  std::signal(SIGXFSZ, old_handler);
  sorted.finish();
  const auto words = words_of(sorted);
  REQUIRE(words.size() == 1000);
  for (uint64_t i = 0; i < 1000; ++i) CHECK(words[i].first == 8 * (i + 1));
}

TEST_CASE("nothing added is nothing found") {
  SortedAddresses sorted;
  sorted.finish();
  CHECK(SortedAddresses::Cursor(sorted).at_end());
}
