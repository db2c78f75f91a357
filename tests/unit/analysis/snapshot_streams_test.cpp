#include "analysis/snapshot_streams.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "analysis/heap_summary.h"
#include "snapshot/snapshot_writer.h"
#include "tests/unit/analysis/handmade_snapshot.h"

using namespace heapsnap;
using test::HandmadeSnapshot;

TEST_CASE("a snapshot file gives the same sums as what was written into it") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x10000, 0x14000, "[heap]", {.rss = 0x2000, .swap = 0x1000});
  snapshot.add_mapping(0x700000, 0x702000, "", {.rss = 0x2000});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                       {{0x810, ChunkState::kUsed},
                        {0x40, ChunkState::kTcache},
                        {0x17b0, ChunkState::kUnsorted},
                        {0x2000, ChunkState::kTop}});
  snapshot.add_pages(0x10000, 0x12000, PageState::kResident);
  snapshot.add_pages(0x12000, 0x13000, PageState::kSwapped);
  snapshot.add_pages(0x13000, 0x14000, PageState::kAbsent);
  snapshot.add_pages(0x700000, 0x702000, PageState::kResidentHuge);
  snapshot.mmapped.push_back(
      {Address(0x700000), Address(0x700000), 0x2000, 0x2000, 0x1ff0, ChunkState::kMmapped, 0});

  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("heapsnap-streams." + std::to_string(::getpid()));
  SnapshotWriter writer({path.string(), true});
  snapshot.streams().read_chunks(writer);
  for (const PageRun& run : snapshot.pages) {
    const std::vector<PageState> states(run.range.size() / 4096, run.state);
    writer.on_pages(run.range.begin, 4096, states);
  }
  writer.finish(snapshot.metadata);
  const SnapshotReader reader = SnapshotReader::open(path.string());
  std::filesystem::remove(path);

  const HeapSummary made = summarize(snapshot.streams());
  const HeapSummary read = summarize(reader);
  CHECK(read.totals == made.totals);
  CHECK(read.shares == made.shares);
  CHECK(read.trim == made.trim);
  CHECK(read.mmapped == made.mmapped);
  CHECK(read.size_classes == made.size_classes);
  CHECK(read.pages_known);
}
