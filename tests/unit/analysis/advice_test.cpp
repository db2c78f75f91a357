#include "analysis/advice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "tests/unit/analysis/handmade_snapshot.h"
#include "tests/unit/analysis/runtime_areas.h"
#include "tests/unit/byte_units.h"

using namespace heapsnap;
using namespace heapsnap::test;
using test::HandmadeSnapshot;

namespace {

std::vector<Advice> advice_for(const HandmadeSnapshot& snapshot) {
  const HeapSummary summary = summarize(snapshot.streams());
  return advise(snapshot.metadata, summary, account_rss(snapshot.metadata, summary));
}

const Advice* find(const std::vector<Advice>& all, AdviceKind kind) {
  for (const Advice& advice : all) {
    if (advice.kind == kind) return &advice;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a tidy heap needs no advice") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x1000000, 0x1000000 + 64 * kMiB, "[heap]", {.rss = 64 * kMiB});
  snapshot.add_segment(
      0, SegmentKind::kBrk, 0x1000000,
      {{63 * kMiB + 0x1000, ChunkState::kUsed}, {kMiB - 0x1000, ChunkState::kTop}});
  snapshot.add_pages(0x1000000, 0x1000000 + 64 * kMiB, PageState::kResident);
  CHECK(advice_for(snapshot).empty());
}

TEST_CASE("little in a large process does not matter") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  uint64_t other = 0;
  SUBCASE("4 MiB of 100") {
    other = 92 * kMiB;
  }
  SUBCASE("4 MiB of 1000") {
    other = 992 * kMiB;
  }
  snapshot.add_mapping(0x1000000, 0x1000000 + 8 * kMiB, "[heap]", {.rss = 8 * kMiB});
  snapshot.add_mapping(0x40000000, 0x40000000 + other, "", {.rss = other});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x1000000,
                       {{4 * kMiB, ChunkState::kUnsorted}, {4 * kMiB, ChunkState::kUsed}});
  snapshot.add_pages(0x1000000, 0x1000000 + 8 * kMiB, PageState::kResident);
  const std::vector<Advice> all = advice_for(snapshot);
  CHECK(all.empty() == (other == 992 * kMiB));
  if (!all.empty()) {
    CHECK(all.size() == 2);
    // The used chunk behind it is of the same size.
    CHECK(all[0].kind == AdviceKind::kMmapThreshold);
    CHECK(all[0].bytes == 4 * kMiB);
    CHECK(all[0].count == 1);
    CHECK(all[0].other_count == 1);
    CHECK(all[1].kind == AdviceKind::kTrim);
    CHECK(all[1].saves_least == 4 * kMiB - 0x1000);
    CHECK(all[1].overlap == 4 * kMiB - 0x1000);
    CHECK(all[1].overlaps == std::vector<size_t>{0});
  }
}

TEST_CASE("free memory of small blocks is no reason for another mmap threshold") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  uint64_t used = 0;
  SUBCASE("no large block is in use") {
    used = 0x10000;
  }
  SUBCASE("those in use have other sizes") {
    used = 0x30020;
  }
  SUBCASE("the runs are as large as several of those in use") {
    used = 0x40000;
  }
  constexpr uint64_t kHeap = 64 * kMiB;
  HandmadeSnapshot::Chunks chunks;
  for (uint64_t at = 0; at < 32 * kMiB; at += 0x100000) {
    // Two neighbours, as malloc_consolidate() would merge them.
    chunks.push_back({0xff000, ChunkState::kSmallbin});
    chunks.push_back({0x1000, ChunkState::kFastbin});
    chunks.push_back({0x20, ChunkState::kUsed});
  }
  chunks.push_back({used, ChunkState::kUsed});
  snapshot.add_mapping(0x1000000, 0x1000000 + kHeap, "[heap]", {.rss = kHeap});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x1000000, chunks);
  snapshot.add_pages(0x1000000, 0x1000000 + kHeap, PageState::kResident);
  const std::vector<Advice> all = advice_for(snapshot);
  CHECK(find(all, AdviceKind::kTrim) != nullptr);
  const Advice* threshold = find(all, AdviceKind::kMmapThreshold);
  CHECK((threshold != nullptr) == (used == 0x40000));
  if (threshold != nullptr) CHECK(threshold->saves_most == 32 * kMiB);
}

TEST_CASE("what is left of all items adds up to no more than what is free") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    uint64_t state = seed;
    const auto random = [&state](uint64_t below) {
      state = state * 6364136223846793005 + 1442695040888963407;
      return (state >> 33) % below;
    };
    HandmadeSnapshot snapshot;
    snapshot.metadata.threads.resize(3);
    constexpr uint64_t kHeap = 32 * kMiB;
    constexpr std::array kStates = {ChunkState::kUsed, ChunkState::kTcache,   ChunkState::kSmallbin,
                                    ChunkState::kUsed, ChunkState::kLargebin, ChunkState::kFastbin};
    constexpr std::array<uint64_t, 4> kSizes = {0x40, 0x810, 0x32010, 0x96030};
    for (int32_t arena = 0; arena < 3; ++arena) {
      snapshot.add_arena(arena == 0);
      HandmadeSnapshot::Chunks chunks;
      const uint64_t top = random(2) * kMiB + 0x1000;
      const uint64_t walked = kHeap - top;
      for (uint64_t at = 0; at < walked;) {
        const uint64_t size = std::min(kSizes[random(4)], walked - at);
        chunks.push_back({size, kStates[random(6)]});
        at += size;
      }
      chunks.push_back({top, ChunkState::kTop});
      const uint64_t begin = 0x10000000 + static_cast<uint64_t>(arena) * 0x4000000;
      snapshot.add_mapping(begin, begin + kHeap, arena == 0 ? "[heap]" : "", {.rss = kHeap});
      snapshot.add_segment(arena, arena == 0 ? SegmentKind::kBrk : SegmentKind::kThreadHeap, begin,
                           chunks);
      snapshot.add_pages(begin, begin + kHeap,
                         random(2) == 0 ? PageState::kResident : PageState::kResidentHuge);
    }
    const HeapSummary summary = summarize(snapshot.streams());
    const auto all = advise(snapshot.metadata, summary, account_rss(snapshot.metadata, summary));
    const uint64_t free = free_figures(summary.totals).pages.resident;
    CHECK(all.size() >= 3);
    uint64_t together = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      CHECK(all[i].bytes <= free);
      CHECK(all[i].saves_least <= all[i].saves_most);
      CHECK(all[i].saves_most <= all[i].bytes);
      CHECK(all[i].overlap <= (all[i].is_predicted() ? all[i].saves_most : all[i].bytes));
      CHECK((all[i].overlap != 0) <= !all[i].overlaps.empty());
      for (const size_t other : all[i].overlaps) CHECK(other < i);
      together += all[i].of_its_own();
    }
    CHECK(together <= free);
  }
}

TEST_CASE("memory that several items free is counted once in what they save together") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x1000000, 0x1000000 + 8 * kMiB, "[heap]", {.rss = 8 * kMiB});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x1000000,
                       {{4 * kMiB, ChunkState::kUnsorted}, {4 * kMiB, ChunkState::kUsed}});
  snapshot.add_pages(0x1000000, 0x1000000 + 8 * kMiB, PageState::kResident);
  const HeapSummary summary = summarize(snapshot.streams());
  const RssAccount account = account_rss(snapshot.metadata, summary);
  std::vector<Advice> all = advise(snapshot.metadata, summary, account);
  REQUIRE(all.size() == 2);
  CHECK(saved_together(all, snapshot.metadata, summary, account) ==
        SavedTogether{{0, 1}, 4 * kMiB, 4 * kMiB});
  // Of one there is nothing to add up.
  all.pop_back();
  CHECK(saved_together(all, snapshot.metadata, summary, account) == SavedTogether{});
}

TEST_CASE("a single arena is advised only for much that a trim does not give back") {
  HandmadeSnapshot snapshot;
  snapshot.metadata.threads.resize(2);
  snapshot.add_arena(true);
  snapshot.add_arena(false);
  bool is_kept = false;
  SUBCASE("in whole pages") {}
  SUBCASE("in pages that used chunks share") {
    is_kept = true;
  }
  for (int32_t arena = 0; arena < 2; ++arena) {
    HandmadeSnapshot::Chunks chunks;
    for (uint64_t at = 0; at < 8 * kMiB; at += 0x1000) {
      chunks.push_back({0x7f0, ChunkState::kUsed});
      chunks.push_back({0x810, is_kept ? ChunkState::kSmallbin : ChunkState::kUsed});
    }
    chunks.push_back({4 * kMiB, is_kept ? ChunkState::kUsed : ChunkState::kUnsorted});
    chunks.push_back({0x20, ChunkState::kUsed});
    chunks.push_back({0x20, ChunkState::kTop});
    const uint64_t begin = 0x10000000 + static_cast<uint64_t>(arena) * 0x4000000;
    const uint64_t end = begin + 12 * kMiB + 0x1000;
    chunks.back().first = end - begin - 12 * kMiB - 0x20;
    snapshot.add_mapping(begin, end, arena == 0 ? "[heap]" : "", {.rss = end - begin});
    snapshot.add_segment(arena, arena == 0 ? SegmentKind::kBrk : SegmentKind::kThreadHeap, begin,
                         chunks);
    snapshot.add_pages(begin, end, PageState::kResident);
  }
  const std::vector<Advice> all = advice_for(snapshot);
  CHECK((find(all, AdviceKind::kArenaMax) != nullptr) == is_kept);
  CHECK((find(all, AdviceKind::kTrim) != nullptr) != is_kept);
}

TEST_CASE("a core's advice is an upper bound") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x1000000, 0x1000000 + 8 * kMiB, "[heap]", {});
  snapshot.metadata.usage.clear();
  snapshot.add_segment(0, SegmentKind::kBrk, 0x1000000,
                       {{4 * kMiB, ChunkState::kUnsorted}, {4 * kMiB, ChunkState::kUsed}});
  snapshot.add_pages(0x1000000, 0x1000000 + 8 * kMiB, PageState::kUnknown);
  const std::vector<Advice> all = advice_for(snapshot);
  REQUIRE(find(all, AdviceKind::kTrim) != nullptr);
  CHECK(find(all, AdviceKind::kTrim)->saves_least == 0);
  CHECK(find(all, AdviceKind::kTrim)->saves_most == 4 * kMiB - 0x1000);
}

TEST_CASE("each kind of waste has its number") {
  HandmadeSnapshot snapshot;
  snapshot.metadata.heap.instances[0].tcache_count = 7;
  snapshot.metadata.threads.resize(3);
  snapshot.add_arena(true);
  snapshot.add_arena(false);
  HandmadeSnapshot::Chunks cached;
  for (int i = 0; i < 4096; ++i) {
    cached.push_back({0x400, ChunkState::kTcache});
    cached.push_back({0x400, ChunkState::kSmallbin});
    cached.push_back({0x400, ChunkState::kUsed});
  }
  snapshot.add_mapping(0x1000000, 0x1000000 + 12 * kMiB, "[heap]", {.rss = 12 * kMiB});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x1000000, cached);
  snapshot.add_pages(0x1000000, 0x1000000 + 12 * kMiB, PageState::kResident);
  snapshot.add_mapping(0x4000000, 0x4000000 + 8 * kMiB, "", {.rss = 8 * kMiB});
  snapshot.add_segment(1, SegmentKind::kThreadHeap, 0x4000000,
                       {{2 * kMiB, ChunkState::kUsed}, {6 * kMiB, ChunkState::kTop}});
  snapshot.add_pages(0x4000000, 0x4000000 + 8 * kMiB, PageState::kResidentHuge);

  const std::vector<Advice> all = advice_for(snapshot);
  REQUIRE(find(all, AdviceKind::kArenaMax) != nullptr);
  const Advice& arenas = *find(all, AdviceKind::kArenaMax);
  CHECK(arenas.bytes == 6 * kMiB);
  CHECK(arenas.count == 2);
  CHECK(arenas.other_count == 3);
  // One arena would still need the larger of both pools, here the 6 MiB.
  CHECK(arenas.saves_least == 0);
  CHECK(arenas.saves_most == 4 * kMiB);
  REQUIRE(find(all, AdviceKind::kTcacheCount) != nullptr);
  const Advice& tcaches = *find(all, AdviceKind::kTcacheCount);
  CHECK(tcaches.bytes == 4 * kMiB);
  CHECK(tcaches.count == 4096);
  CHECK(tcaches.other_count == 7);
  CHECK_FALSE(tcaches.is_predicted());
  REQUIRE(find(all, AdviceKind::kFragmentation) != nullptr);
  CHECK(find(all, AdviceKind::kFragmentation)->bytes == 4 * kMiB);
  CHECK(find(all, AdviceKind::kTrim) == nullptr);
  CHECK(find(all, AdviceKind::kMmapThreshold) == nullptr);
  CHECK(all.front().kind == AdviceKind::kArenaMax);  // nothing is certain
  CHECK(arenas.overlap == 0);
  CHECK_FALSE(all.back().is_predicted());
}

TEST_CASE("what is certain comes first, however little, and little fragmentation is none") {
  HandmadeSnapshot snapshot;
  snapshot.metadata.threads.resize(3);
  snapshot.add_arena(true);
  snapshot.add_arena(false);
  snapshot.add_arena(false);
  const auto add_heap = [&](int32_t arena, uint64_t begin, HandmadeSnapshot::Chunks chunks) {
    const bool is_main = arena == 0;
    snapshot.add_mapping(begin, begin + 16 * kMiB, is_main ? "[heap]" : "", {.rss = 16 * kMiB});
    snapshot.add_segment(arena, is_main ? SegmentKind::kBrk : SegmentKind::kThreadHeap, begin,
                         std::move(chunks));
    snapshot.add_pages(begin, begin + 16 * kMiB, PageState::kResident);
  };
  add_heap(0, 0x1000000, {{12 * kMiB, ChunkState::kUsed}, {4 * kMiB, ChunkState::kTop}});
  HandmadeSnapshot::Chunks small;  // no page of which is free as a whole
  for (uint64_t at = 0; at < 4 * kMiB; at += 0x1000) {
    small.push_back({0x7f0, ChunkState::kUsed});
    small.push_back({0x810, ChunkState::kSmallbin});
  }
  small.push_back({4 * kMiB, ChunkState::kUsed});
  small.push_back({8 * kMiB, ChunkState::kTop});
  add_heap(1, 0x4000000, small);
  add_heap(2, 0x8000000, {{8 * kMiB, ChunkState::kUsed}, {8 * kMiB, ChunkState::kTop}});
  const std::vector<Advice> all = advice_for(snapshot);
  REQUIRE(all.size() >= 2);
  CHECK(all[0].kind == AdviceKind::kTrim);
  CHECK(all[0].is_certain());
  const Advice* const arenas = find(all, AdviceKind::kArenaMax);
  REQUIRE(arenas != nullptr);
  CHECK_FALSE(arenas->is_certain());
  CHECK(arenas->saves_most > all[0].saves_most);
  CHECK(find(all, AdviceKind::kFragmentation) == nullptr);  // 2 MiB of 48
}

TEST_CASE("what is free in a language runtime's arenas is said where it is much") {
  HandmadeSnapshot snapshot;
  snapshot.add_mapping(0x10000000, 0x10000000 + 64 * kMiB, "", {.rss = 32 * kMiB});
  add_python(snapshot, {area_at(0x10000000, 32 * kMiB), area_at(0x12000000, 8 * kMiB)});
  const std::vector<Advice> all = advice_for(snapshot);
  REQUIRE(all.size() == 1);
  CHECK(all[0].kind == AdviceKind::kPythonPools);
  CHECK(all[0].bytes == 40 * kMiB / 8 * 7 / 2);
  CHECK(all[0].count == 2);
  CHECK_FALSE(all[0].is_predicted());
  add_python(snapshot, {area_at(0x10000000, 7 * kMiB)});
  CHECK(advice_for(snapshot).empty());
}
