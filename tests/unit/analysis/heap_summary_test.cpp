#include "analysis/heap_summary.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/unit/analysis/handmade_snapshot.h"

using namespace heapsnap;
using test::HandmadeSnapshot;
using test::kUsed;

namespace {

constexpr ChunkState kTcache = ChunkState::kTcache;
constexpr ChunkState kFastbin = ChunkState::kFastbin;
constexpr ChunkState kUnsorted = ChunkState::kUnsorted;
constexpr ChunkState kLargebin = ChunkState::kLargebin;
constexpr ChunkState kTop = ChunkState::kTop;
constexpr ChunkState kFence = ChunkState::kFence;

const StateFigures& of(const HeapSummary& summary, ChunkState state) {
  return summary.totals[static_cast<size_t>(state)];
}

const PageBytes& share(const HeapSummary& summary, size_t mapping, HeapShare which) {
  return summary.shares[mapping][static_cast<size_t>(which)];
}

}  // namespace

TEST_CASE("a page half used, half free counts by the byte") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x10000, 0x13000, "[heap]", {.rss = 0x1000});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                       {{0x800, kUsed}, {0x1000, kUnsorted}, {0x20, kUsed}, {0x17e0, kTop}});
  snapshot.add_pages(0x10000, 0x11000, PageState::kResident);
  snapshot.add_pages(0x11000, 0x12000, PageState::kSwapped);
  snapshot.add_pages(0x12000, 0x13000, PageState::kAbsent);

  const HeapSummary summary = summarize(snapshot.streams());
  CHECK(summary.pages_known);
  CHECK(of(summary, kUsed).chunks == Tally{2, 0x820});
  CHECK(of(summary, kUsed).pages == PageBytes{0x800, 0, 0x20, 0, 0});
  CHECK(of(summary, kUnsorted).chunks == Tally{1, 0x1000});
  CHECK(of(summary, kUnsorted).pages == PageBytes{0x800, 0, 0x800, 0, 0});
  CHECK(of(summary, kTop).pages == PageBytes{0, 0, 0x7e0, 0x1000, 0});
  // One header in memory, one in swap.
  CHECK(summary.headers == PageBytes{8, 0, 8, 0, 0});
  CHECK(share(summary, 0, HeapShare::kProgram) == PageBytes{0x7f8, 0, 0x18, 0, 0});
  CHECK(share(summary, 0, HeapShare::kOverhead) == PageBytes{8, 0, 8, 0, 0});
  CHECK(share(summary, 0, HeapShare::kBins) == PageBytes{0x800, 0, 0x800, 0, 0});
  CHECK(used_figures(summary.totals).chunks.bytes + free_figures(summary.totals).chunks.bytes ==
        0x3000);
}

TEST_CASE("huge pages are resident and counted apart") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x200000, 0x400000, "[heap]", {.rss = 0x200000});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x200000, {{0x1000, kUsed}, {0x1ff000, kTop}});
  snapshot.add_pages(0x200000, 0x400000, PageState::kResidentHuge);
  const HeapSummary summary = summarize(snapshot.streams());
  CHECK(of(summary, kUsed).pages == PageBytes{0x1000, 0x1000, 0, 0, 0});
  CHECK(of(summary, kTop).pages == PageBytes{0x1ff000, 0x1ff000, 0, 0, 0});
}

TEST_CASE("without page states everything is unknown") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x10000, 0x13000, "[heap]", {});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000, {{0x2000, kUnsorted}, {0x1000, kUsed}});
  const HeapSummary summary = summarize(snapshot.streams());
  CHECK_FALSE(summary.pages_known);
  CHECK(of(summary, kUnsorted).pages == PageBytes{0, 0, 0, 0, 0x2000});
  CHECK(summary.trim.resident() == 0);
  CHECK(summary.trim.unknown == 0x1000);
}

TEST_CASE("malloc_trim gives back whole pages behind the first six words of free chunks") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x10000, 0x30000, "[heap]", {.rss = 0x20000});
  snapshot.add_pages(0x10000, 0x30000, PageState::kResident);

  SUBCASE("a chunk that begins a page loses that page only when its links are not in it") {
    snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                         {{0x3000, kLargebin}, {0x20, kUsed}, {0x1cfe0, kUsed}});
    const HeapSummary summary = summarize(snapshot.streams());
    CHECK(summary.trim.bins == 0x2000);
    CHECK(summary.trim.top == 0);
    CHECK(summary.kept.bins == 0x1000);
    CHECK(summary.arenas[0].trim == summary.trim);
  }
  SUBCASE("48 bytes before a page is enough") {
    snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                         {{0xfd0, kUsed}, {0x1030, kUnsorted}, {0x1e000, kUsed}});
    CHECK(summarize(snapshot.streams()).trim.bins == 0x1000);
  }
  SUBCASE("glibc passes over a chunk of ps - 1 + 48 bytes, although a page would be free") {
    snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                         {{0xfd0, kUsed}, {0x1020, kUnsorted}, {0x1e010, kUsed}});
    CHECK(summarize(snapshot.streams()).trim.bins == 0);
  }
  SUBCASE("fastbins merge with their neighbours, tcaches do not") {
    snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                         {{0xfd0, kUsed},
                          {0x800, kFastbin},
                          {0x830, kUnsorted},
                          {0x1000, kFastbin},
                          {0x1000, kTcache},
                          {0x1c000, kUsed}});
    const HeapSummary summary = summarize(snapshot.streams());
    CHECK(summary.trim.bins == 0x2000);
    CHECK(summary.kept.bins == 0x30);
    CHECK(summary.kept.tcache == 0x1000);
    CHECK(summary.arenas[0].largest_free == 0x2030);
    CHECK(summary.arenas[0].scatter() == 0.0);
  }
  SUBCASE("absent pages bring nothing, swapped ones bring swap") {
    snapshot.pages.clear();
    snapshot.add_pages(0x10000, 0x11000, PageState::kResident);
    snapshot.add_pages(0x11000, 0x12000, PageState::kAbsent);
    snapshot.add_pages(0x12000, 0x13000, PageState::kSwapped);
    snapshot.add_pages(0x13000, 0x30000, PageState::kResident);
    snapshot.add_segment(0, SegmentKind::kBrk, 0x10000, {{0x4000, kUnsorted}, {0x1c000, kUsed}});
    const HeapSummary summary = summarize(snapshot.streams());
    CHECK(summary.trim == TrimEstimate{0x1000, 0, 0x1000, 0});
    CHECK(summary.kept.bins == 0x1000);
  }
}

TEST_CASE("only the main arena's top is trimmed, and only where the break still is") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_arena(false);
  uint64_t heap_end = 0x20000;
  SUBCASE("the heap ends with top") {}
  SUBCASE("somebody else moved the break") {
    heap_end = 0x21000;
  }
  snapshot.add_mapping(0x10000, heap_end, "[heap]", {.rss = heap_end - 0x10000});
  snapshot.add_mapping(0x4000000, 0x4010000, "", {.rss = 0x10000});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000, {{0x4000, kUsed}, {0xc000, kTop}});
  snapshot.add_segment(1, SegmentKind::kThreadHeap, 0x4000000, {{0x4000, kUsed}, {0xc000, kTop}});
  snapshot.add_pages(0x10000, heap_end, PageState::kResident);
  snapshot.add_pages(0x4000000, 0x4010000, PageState::kResident);

  const HeapSummary summary = summarize(snapshot.streams());
  // systrim() keeps MINSIZE + 1 bytes, so a page stays.
  const uint64_t trimmed = heap_end == 0x20000 ? 0xb000 : 0;
  CHECK(summary.trim.top == trimmed);
  CHECK(summary.kept.main_top == 0xc000 - trimmed);
  CHECK(summary.kept.other_tops == 0xc000);
  CHECK(summary.arenas[1].trim == TrimEstimate{});
  CHECK(summary.trim.resident() + summary.kept.total() ==
        free_figures(summary.totals).pages.resident);
}

TEST_CASE("free chunks before the main arena's top merge into it") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x10000, 0x14000, "[heap]", {.rss = 0x4000});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                       {{0x1000, kUsed}, {0x1800, kFastbin}, {0x1800, kTop}});
  snapshot.add_pages(0x10000, 0x14000, PageState::kResident);
  const HeapSummary summary = summarize(snapshot.streams());
  // Of 0x3000 bytes from 0x11000 on, two pages go: half of the first lies in the fastbin chunk.
  CHECK(summary.trim == TrimEstimate{0x800, 0x1800, 0, 0});
  CHECK(summary.kept == FreeKept{0, 0x1000, 0, 0});
}

TEST_CASE("a run of free chunks belongs to the arena in which it ends") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_arena(false);
  snapshot.add_mapping(0x10000, 0x20000, "[heap]", {.rss = 0x10000});
  snapshot.add_mapping(0x4000000, 0x4010000, "", {.rss = 0x10000});
  // Both segments end in a free chunk: their walks broke off there.
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                       {{0x4000, ChunkState::kUsed}, {0xc000, ChunkState::kUnsorted}});
  snapshot.add_segment(1, SegmentKind::kThreadHeap, 0x4000000,
                       {{0x8000, ChunkState::kUsed}, {0x8000, ChunkState::kUnsorted}});
  snapshot.add_pages(0x10000, 0x20000, PageState::kResident);
  snapshot.add_pages(0x4000000, 0x4010000, PageState::kResident);
  const HeapSummary summary = summarize(snapshot.streams());
  CHECK(summary.arenas[0].trim == TrimEstimate{0xb000, 0, 0, 0});
  CHECK(summary.arenas[1].trim == TrimEstimate{0x7000, 0, 0, 0});
  CHECK(summary.arenas[0].largest_free == 0xc000);
  CHECK(summary.arenas[1].largest_free == 0x8000);
}

TEST_CASE("a trim does nothing for hugetlb mappings") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x200000, 0x400000, "/anon_hugepage", {.hugetlb = 0x200000});
  snapshot.metadata.mappings[0].deleted = true;
  snapshot.add_segment(0, SegmentKind::kMapped, 0x200000,
                       {{0x100000, kUnsorted}, {0x100000, kUsed}});
  snapshot.add_pages(0x200000, 0x400000, PageState::kResidentHuge);
  const HeapSummary summary = summarize(snapshot.streams());
  CHECK(summary.trim.resident() == 0);
  CHECK(summary.large_free.chunks == Tally{1, 0x100000});
  CHECK(summary.large_free.pages.resident == 0x100000);
  CHECK(summary.large_used == Tally{1, 0x100000});
}

TEST_CASE("allocator structures are overhead, in chunks or before them") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_arena(false);
  snapshot.add_mapping(0x4000000, 0x4002000, "", {.rss = 0x2000});
  snapshot.add_segment(1, SegmentKind::kThreadHeap, 0x40008c0,
                       {{0x290, kUsed}, {0x14b0 - 0x20, kUsed}, {0x10, kFence}, {0x10, kFence}});
  snapshot.metadata.heap.segments[0].system_bytes += 0x8c0;
  snapshot.metadata.heap.segments[0].range.end = Address(0x4002000);
  snapshot.batches[0].sizes[1] += 0x2000 - 0x8c0 - 0x290 - 0x14b0;
  snapshot.metadata.heap.segments[0].system_bytes = 0x2000;
  snapshot.metadata.heap.thread_caches.push_back({7, Address(0x40008d0), 1, 0, 0});
  snapshot.add_pages(0x4000000, 0x4002000, PageState::kResident);
  const HeapSummary summary = summarize(snapshot.streams());
  CHECK(summary.tcache_structs.resident == 0x290);
  CHECK(summary.arenas[1].own.resident == 0x8c0 + 0x290);
  CHECK(of(summary, kUsed).chunks.count == 2);
  CHECK(share(summary, 0, HeapShare::kOverhead).resident == 0x8c0 + 0x290 + 8 + 0x20);
  CHECK(share(summary, 0, HeapShare::kProgram).resident == 0x2000 - (0x8c0 + 0x290 + 8 + 0x20));
  CHECK(share(summary, 0, HeapShare::kUnwalked).resident == 0);
}

TEST_CASE("what a damaged walk left out is unwalked") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x10000, 0x18000, "[heap]", {.rss = 0x8000});
  snapshot.add_pages(0x10000, 0x18000, PageState::kResident);
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000, {{0x1000, kUsed}});
  snapshot.metadata.heap.segments[0].range.end = Address(0x15000);
  HandmadeSnapshot::Batch second = snapshot.batches[0];
  second.begin = Address(0x13000);
  snapshot.batches.push_back(second);
  // A segment that gave no chunk at all.
  snapshot.metadata.heap.segments.push_back(
      {{Address(0x15000), Address(0x16000)}, 0, SegmentKind::kBrk, 0x1000});
  const HeapSummary summary = summarize(snapshot.streams());
  CHECK(share(summary, 0, HeapShare::kUnwalked).resident == 0x2000 + 0x1000 + 0x1000);
  CHECK(share(summary, 0, HeapShare::kProgram).resident == 0x2000 - 16);
}

TEST_CASE("mmapped chunks count with their mapping") {
  HandmadeSnapshot snapshot;
  snapshot.add_mapping(0x700000, 0x740000, "", {.rss = 0x3000});
  snapshot.mmapped.push_back(
      {Address(0x700000), Address(0x700ff0), 0x30000, 0x2f010, 0x2f000, ChunkState::kMmapped, 0});
  snapshot.mmapped.push_back(
      {Address(0x730000), Address(0x730000), 0x10000, 0x10000, 0xfff0, ChunkState::kTcache, 0});
  snapshot.add_pages(0x700000, 0x702000, PageState::kResident);
  snapshot.add_pages(0x702000, 0x730000, PageState::kAbsent);
  snapshot.add_pages(0x730000, 0x731000, PageState::kResident);
  const HeapSummary summary = summarize(snapshot.streams());
  CHECK(summary.mmapped[0] == Tally{2, 0x40000});
  CHECK(of(summary, ChunkState::kMmapped).chunks == Tally{1, 0x30000});
  CHECK(of(summary, ChunkState::kMmapped).pages == PageBytes{0x2000, 0, 0, 0x2e000, 0});
  CHECK(of(summary, kTcache).pages == PageBytes{0x1000, 0, 0, 0, 0xf000});
  CHECK(share(summary, 0, HeapShare::kOverhead).resident == 0x1000);
  CHECK(share(summary, 0, HeapShare::kMmapped).resident == 0x1000);
  CHECK(share(summary, 0, HeapShare::kTcache).resident == 0x1000);
  CHECK(summary.kept.tcache == 0x1000);
  REQUIRE(summary.largest_used.size() == 1);
  CHECK(summary.largest_used[0] ==
        LargeChunk{Address(0x701000), 0x30000, ChunkState::kMmapped, -1});
}

TEST_CASE("sizes are counted by powers of two, small ones also exactly") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                       {{32, kUsed},
                        {48, kUsed},
                        {48, kUsed},
                        {48, kTcache},
                        {1024, kUsed},
                        {1040, kFastbin},
                        {2048, kUsed},
                        {4096, kTop},
                        {16, kFence}});
  const HeapSummary summary = summarize(snapshot.streams());
  const std::vector<SizeClass> expected = {{32, 64, {3, 128}, {1, 48}},
                                           {1024, 2048, {1, 1024}, {1, 1040}},
                                           {2048, 4096, {1, 2048}, {0, 0}}};
  CHECK(summary.size_classes == expected);
  REQUIRE(summary.common_sizes.size() == 3);
  CHECK(summary.common_sizes[0] == SizeClass{1024, 1032, {1, 1024}, {}});
  CHECK(summary.common_sizes[1] == SizeClass{48, 56, {2, 96}, {1, 48}});
  CHECK(summary.common_sizes[2] == SizeClass{32, 40, {1, 32}, {}});
  // Each used chunk once, 1,024 among the exact sizes.
  const std::vector<SizeClass> used_sizes = {{2048, 4096, {1, 2048}, {}},
                                             {1024, 1032, {1, 1024}, {}},
                                             {48, 56, {2, 96}, {1, 48}},
                                             {32, 40, {1, 32}, {}}};
  CHECK(summary.used_sizes == used_sizes);
  REQUIRE(summary.largest_used.size() == 5);
  CHECK(summary.largest_used[0].size == 2048);
  CHECK(summary.largest_free[0] ==
        LargeChunk{Address(0x10000 + 32 + 48 * 3 + 1024 + 16), 1040, kFastbin, 0});
}

TEST_CASE("the largest chunks are kept, however many there are") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  HandmadeSnapshot::Chunks chunks;
  for (uint64_t i = 0; i < 1000; ++i) chunks.push_back({32 + 16 * (i * 7919 % 1000), kUsed});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000, chunks);
  const HeapSummary summary = summarize(snapshot.streams());
  REQUIRE(summary.largest_used.size() == 20);
  for (uint64_t i = 0; i < 20; ++i) CHECK(summary.largest_used[i].size == 32 + 16 * (999 - i));
}

TEST_CASE("32-bit targets have 4-byte words") {
  HandmadeSnapshot snapshot;
  snapshot.metadata.process.machine = Machine::kI386;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x10000, 0x13000, "[heap]", {.rss = 0x3000});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                       {{0xfe8, kUsed}, {0x1018, kUnsorted}, {0x1000, kUsed}});
  snapshot.add_pages(0x10000, 0x13000, PageState::kResident);
  const HeapSummary summary = summarize(snapshot.streams());
  CHECK(summary.headers.resident == 8);
  CHECK(summary.trim.bins == 0x1000);
}

TEST_CASE("a second window of page runs gives the same sums") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  constexpr uint64_t kPages = 400;
  snapshot.add_mapping(0x10000, 0x10000 + kPages * 0x1000, "[heap]", {.rss = kPages / 2 * 0x1000});
  HandmadeSnapshot::Chunks chunks;
  uint64_t left = kPages * 0x1000;
  for (uint64_t i = 0; left > 0x8000; ++i) {
    const uint64_t size = 32 + 16 * (i * 7919 % 1500);
    chunks.push_back({size, i % 3 == 0 ? kUnsorted : i % 3 == 1 ? kUsed : kTcache});
    left -= size;
  }
  chunks.push_back({left, kTop});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000, chunks);
  snapshot.metadata.heap.thread_caches.push_back(
      {1, Address(0x10000 + chunks[0].first + 16), 0, 0, 0});
  for (uint64_t page = 0; page < kPages; ++page) {
    snapshot.add_pages(0x10000 + page * 0x1000, 0x11000 + page * 0x1000,
                       page % 2 == 0 ? PageState::kResident : PageState::kAbsent);
  }
  snapshot.mmapped.push_back({Address(0x10000 + (kPages - 8) * 0x1000),
                              Address(0x10000 + (kPages - 8) * 0x1000), 0x8000, 0x8000, 0x7ff0,
                              ChunkState::kMmapped, 0});
  const HeapSummary whole = summarize(snapshot.streams());
  for (const size_t max_runs : {4, 7, 64, 399}) {
    CAPTURE(max_runs);
    const HeapSummary parts = summarize(snapshot.streams(), max_runs);
    CHECK(parts.totals == whole.totals);
    CHECK(parts.shares == whole.shares);
    CHECK(parts.trim == whole.trim);
    CHECK(parts.kept == whole.kept);
    CHECK(parts.headers == whole.headers);
    CHECK(parts.tcache_structs == whole.tcache_structs);
    CHECK(parts.size_classes == whole.size_classes);
    CHECK(parts.largest_used == whole.largest_used);
    CHECK(parts.mmapped == whole.mmapped);
    CHECK(parts.arenas[0].largest_free == whole.arenas[0].largest_free);
    CHECK(parts.large_free == whole.large_free);
  }
}

TEST_CASE("chunks that do not fit the metadata are refused") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000, {{32, kUsed}});
  SUBCASE("an arena that is not there") {
    snapshot.batches[0].arena = 1;
  }
  SUBCASE("a negative arena") {
    snapshot.batches[0].arena = -1;
  }
  SUBCASE("a segment that is not there") {
    snapshot.batches[0].segment = 5;
  }
  SUBCASE("a chunk past the end of the address space") {
    snapshot.batches[0].sizes[0] = UINT64_MAX - 0x1000;
  }
  SUBCASE("a chunk that goes back") {
    snapshot.batches[0].sizes[0] = UINT64_MAX - 15;
  }
  SUBCASE("an mmapped chunk of no malloc") {
    snapshot.mmapped.push_back({{}, {}, 1, 1, 1, ChunkState::kMmapped, 9});
  }
  SUBCASE("a mapping past the end of the address space") {
    snapshot.mmapped.push_back(
        {Address(UINT64_MAX - 5), {}, 0x1000, 1, 1, ChunkState::kMmapped, 0});
  }
  SUBCASE("states missing") {
    snapshot.batches[0].states.clear();
  }
  CHECK_THROWS_AS(summarize(snapshot.streams()), Error);
}

TEST_CASE("nonsense that fits is added up without harm") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.metadata.process.page_size = 12345;
  snapshot.add_mapping(0x10000, UINT64_MAX, "[heap]", {.rss = 5});
  snapshot.add_segment(0, SegmentKind::kThreadHeap, 0x10000,
                       {{0, kUsed}, {1, static_cast<ChunkState>(200)}, {0, kTop}, {3, kUnsorted}});
  snapshot.metadata.heap.segments[0].range.end = Address(UINT64_MAX);
  snapshot.metadata.heap.segments[0].system_bytes = UINT64_MAX;
  snapshot.add_pages(0x20000, 0x30001, PageState::kResident);
  snapshot.add_pages(0x1000, 0x25000, PageState::kSwapped);
  const HeapSummary summary = summarize(snapshot.streams());
  CHECK(of(summary, ChunkState::kUnknown).chunks == Tally{1, 1});
  CHECK(of(summary, kUsed).chunks == Tally{1, 0});
}
