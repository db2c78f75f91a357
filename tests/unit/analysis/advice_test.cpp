#include "analysis/advice.h"

#include <doctest/doctest.h>

#include "tests/unit/analysis/handmade_snapshot.h"

using namespace heapsnap;
using test::HandmadeSnapshot;

namespace {

constexpr uint64_t kMiB = 1 << 20;

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
    CHECK(all[0] == Advice{AdviceKind::kMmapThreshold, 4 * kMiB, 1, 1});
    CHECK(all[1] == Advice{AdviceKind::kTrim, 4 * kMiB - 0x1000, 0, 0});
    CHECK(all.size() == 2);
  }
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
  CHECK(*find(all, AdviceKind::kArenaMax) == Advice{AdviceKind::kArenaMax, 6 * kMiB, 2, 3});
  REQUIRE(find(all, AdviceKind::kTcacheCount) != nullptr);
  CHECK(*find(all, AdviceKind::kTcacheCount) ==
        Advice{AdviceKind::kTcacheCount, 4 * kMiB, 4096, 7});
  REQUIRE(find(all, AdviceKind::kHugePages) != nullptr);
  CHECK(find(all, AdviceKind::kHugePages)->bytes == 6 * kMiB);
  REQUIRE(find(all, AdviceKind::kFragmentation) != nullptr);
  CHECK(find(all, AdviceKind::kFragmentation)->bytes == 4 * kMiB);
  CHECK(find(all, AdviceKind::kTrim) == nullptr);
  CHECK(find(all, AdviceKind::kMmapThreshold) == nullptr);
  for (size_t i = 1; i < all.size(); ++i) CHECK(all[i - 1].bytes >= all[i].bytes);
}
