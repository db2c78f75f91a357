// PageCache, MemoryWindow and PageHeads: the three ways in which a walk reads its target.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "base/alteration.h"
#include "heap/walk/memory_window.h"
#include "heap/walk/page_heads.h"
#include "target/page_cache.h"
#include "tests/unit/heap/sparse_target.h"

using namespace heapsnap;

namespace {

constexpr Address kReadBase{0x7f0000000000};

SparseTarget target_of_pages(unsigned pages) {
  SparseTarget target(Machine::kX86_64);
  target.map(kReadBase, pages * 4096ULL);
  for (unsigned i = 0; i < pages; ++i) target.put_word(kReadBase + i * 4096, i + 1);
  return target;
}

}  // namespace

TEST_CASE("whatever reads the target stops when the end is asked for") {
  const std::pair<const char*, std::function<void(SparseTarget&)>> readers[] = {
      {"page cache", [](auto& target) { PageCache(target.memory()).word(kReadBase, 8); }},
      {"window", [](auto& target) { MemoryWindow(target).move_to(kReadBase, kReadBase + 4096); }},
      {"page heads",
       [](auto& target) {
         PageHeads(target).scan({kReadBase, kReadBase + 4096},
                                [](Address page, auto) { return page; });
       }},
  };
  for (const auto& reader : readers) {
    CAPTURE(reader.first);
    // In a child: that the end was asked for cannot be taken back.
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      SparseTarget target = target_of_pages(1);
      ask_to_end();
      try {
        reader.second(target);
      } catch (const EndAsked&) {
        ::_exit(0);
      }
      ::_exit(1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

TEST_CASE("the page cache reads a page once") {
  SparseTarget target = target_of_pages(4);
  PageCache cache(target.memory(), 4);
  for (unsigned round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < 4; ++i) CHECK(cache.word(kReadBase + i * 4096, 8) == i + 1);
  }
  CHECK(target.bytes_read() == 4 * 4096);
}

TEST_CASE("pages that share a place in the cache push each other out") {
  SparseTarget target = target_of_pages(8);
  PageCache cache(target.memory(), 4);
  CHECK(cache.word(kReadBase, 8) == 1);
  CHECK(cache.word(kReadBase + 4 * 4096, 8) == 5);
  CHECK(cache.word(kReadBase, 8) == 1);
  CHECK(target.bytes_read() == 3 * 4096);
}

TEST_CASE("the page cache knows where memory ends, and reads across pages") {
  SparseTarget target = target_of_pages(2);
  target.map(kReadBase + 3 * 4096, 4096);
  PageCache cache(target.memory());
  CHECK(!cache.word(kReadBase + 2 * 4096, 8));
  CHECK(!cache.word(kReadBase + 2 * 4096 - 4, 8));
  CHECK(cache.word(kReadBase + 4096 - 4, 8) == 2ULL << 32);
  CHECK(cache.word(kReadBase + 4096 - 4, 4) == 0);
  std::array<std::byte, 3 * 4096> bytes;
  CHECK(cache.read(kReadBase, bytes) == 2 * 4096);
  CHECK(cache.read(kReadBase - 1, bytes) == 0);
  CHECK(!cache.word(Address(~0ULL), 8));
}

TEST_CASE("a window reads further ahead as long as it is used, and starts small after a jump") {
  SparseTarget target = target_of_pages(1024);
  MemoryWindow window(target);
  const Address limit = kReadBase + 1024 * 4096;
  size_t before = 0;
  Address at = kReadBase;
  for (unsigned i = 0; i < 4; ++i) {
    const size_t size = window.move_to(at, limit);
    CHECK(size >= before);
    before = size;
    at += size;
  }
  CHECK(before > MemoryWindow::kSmallest);
  CHECK(window.move_to(kReadBase + 800 * 4096, limit) == MemoryWindow::kSmallest);
  CHECK(window.move_to(limit - 100, limit) == 100);
  CHECK(window.move_to(limit, limit) == 0);
}

TEST_CASE("a window ends before pages that are absent or swapped, but reads the one asked for") {
  SparseTarget target(Machine::kX86_64);
  target.map(kReadBase, 64 * 4096ULL);
  target.put_word(kReadBase, 1);
  target.put_word(kReadBase + 2 * 4096, 1);
  target.put_word(kReadBase + 3 * 4096, 1);
  target.mark_swapped(kReadBase + 3 * 4096);
  MemoryWindow window(target);
  const Address limit = kReadBase + 64 * 4096;
  CHECK(window.move_to(kReadBase + 16, limit) == 4096 - 16);
  CHECK(window.move_to(kReadBase + 2 * 4096, limit) == 4096);
  CHECK(target.costly_pages_read() == 0);
  CHECK(window.move_to(kReadBase + 4096, limit) == 2 * 4096);
  CHECK(target.costly_pages_read() == 1);
  CHECK(window.move_to(kReadBase + 3 * 4096, limit) == 4096);
}

TEST_CASE("page heads are visited in order, absent pages and holes are not, jumps are followed") {
  SparseTarget target = target_of_pages(64);
  target.map(kReadBase + 64 * 4096, 100000 * 4096ULL);
  target.put_word(kReadBase + 90000 * 4096, 77);
  target.make_unreadable({kReadBase + 5 * 4096, kReadBase + 7 * 4096});
  PageHeads heads(target);
  std::vector<uint64_t> seen;
  heads.scan({kReadBase, kReadBase + 100064 * 4096}, [&](Address page, PageHeads::Head head) {
    uint64_t word = 0;
    std::memcpy(&word, head.data(), sizeof(word));
    seen.push_back(word);
    return word == 10 ? page + 30 * 4096 : page + 4096;
  });
  std::vector<uint64_t> expected;
  for (uint64_t i = 1; i <= 64; ++i) {
    if (i != 6 && i != 7 && (i <= 10 || i > 39)) expected.push_back(i);
  }
  expected.push_back(77);
  CHECK(seen == expected);
  CHECK(target.costly_pages_read() == 0);
  CHECK(heads.at(kReadBase).has_value());
  CHECK(!heads.at(kReadBase + 5 * 4096));
}
