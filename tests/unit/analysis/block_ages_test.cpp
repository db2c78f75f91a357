#include "analysis/block_ages.h"

#include <doctest/doctest.h>

#include "tests/unit/analysis/handmade_snapshot.h"

using namespace heapsnap;
using heapsnap::test::HandmadeSnapshot;
using heapsnap::test::kUsed;

namespace {

constexpr ChunkState kBinned = ChunkState::kSmallbin;
constexpr uint64_t kHeap = 0x10000;
constexpr uint64_t kMapping = 0x7f0000000000;

HandmadeSnapshot snapshot_of(const HandmadeSnapshot::Chunks& chunks, uint64_t mapped = 0) {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_segment(0, SegmentKind::kBrk, kHeap, chunks);
  if (mapped != 0) {
    MmappedChunk chunk;
    chunk.mapping_begin = chunk.chunk = Address(kMapping);
    chunk.total = chunk.size = mapped;
    snapshot.mmapped.push_back(chunk);
  }
  return snapshot;
}

std::vector<int> ages_of(const std::vector<HandmadeSnapshot>& snapshots) {
  std::vector<SnapshotStreams> streams;
  for (const HandmadeSnapshot& each : snapshots) streams.push_back(each.streams());
  const LargeArray<uint8_t> ages = block_ages(streams);
  return {ages.begin(), ages.end()};
}

}  // namespace

TEST_CASE("a block is as old as the first of the snapshots from which on all have it") {
  const std::vector<HandmadeSnapshot> snapshots{
      snapshot_of({{32, kUsed}, {32, kUsed}, {64, kBinned}}, 0x21000),
      snapshot_of({{32, kUsed}, {32, kBinned}, {64, kUsed}}, 0x21000),
      snapshot_of({{32, kUsed}, {32, kUsed}, {64, kUsed}, {48, kUsed}, {48, kBinned}}, 0x21000)};
  // Always there; freed and there again; new in the second; new in the last; and the mmapped one.
  CHECK(ages_of(snapshots) == std::vector<int>{0, 2, 1, 2, 0});
  CHECK(ages_of({snapshots[2]}) == std::vector<int>{0, 0, 0, 0, 0});
}

TEST_CASE("a block of another size at the same address is another block") {
  CHECK(ages_of({snapshot_of({{32, kUsed}, {64, kUsed}}, 0x21000),
                 snapshot_of({{48, kUsed}, {48, kUsed}}, 0x22000)}) == std::vector<int>{1, 1, 1});
  CHECK(ages_of({snapshot_of({{32, kUsed}}, 5 << 20), snapshot_of({{32, kUsed}}, 6 << 20)}) ==
        std::vector<int>{0, 1});
  CHECK(ages_of({snapshot_of({}, 6ULL << 30), snapshot_of({}, 6ULL << 30)}) == std::vector<int>{0});
  // What follows is found by its own address.
  CHECK(ages_of({snapshot_of({{32, kUsed}, {64, kUsed}, {32, kUsed}}),
                 snapshot_of({{96, kUsed}, {32, kUsed}})}) == std::vector<int>{1, 0});
}

TEST_CASE("snapshots without blocks have none that is old") {
  CHECK(ages_of({snapshot_of({{32, kBinned}}), snapshot_of({{32, kUsed}})}) == std::vector<int>{1});
  CHECK(ages_of({snapshot_of({{32, kUsed}}), snapshot_of({{32, kBinned}})}).empty());
}

TEST_CASE("chunks that do not ascend are found all the same") {
  HandmadeSnapshot before = snapshot_of({{32, kUsed}, {64, kUsed}});
  before.add_segment(0, SegmentKind::kBrk, kHeap / 2, {{32, kUsed}, {80, kUsed}});
  HandmadeSnapshot after = before;
  after.add_segment(0, SegmentKind::kBrk, kHeap / 4, {{32, kUsed}});
  CHECK(ages_of({before, after}) == std::vector<int>{0, 0, 0, 0, 1});
}
