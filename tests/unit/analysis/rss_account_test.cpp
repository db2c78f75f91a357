#include "analysis/rss_account.h"

#include <doctest/doctest.h>

#include <random>

#include "analysis/mapping_groups.h"
#include "tests/unit/analysis/handmade_snapshot.h"
#include "tests/unit/analysis/runtime_areas.h"

using namespace heapsnap;
using test::HandmadeSnapshot;

namespace {

RssAccount account_of(const HandmadeSnapshot& snapshot) {
  return account_rss(snapshot.metadata, summarize(snapshot.streams()));
}

Thread thread_at(uint64_t stack_pointer) {
  Thread thread;
  thread.registers = Registers{{}, Address(stack_pointer), {}};
  return thread;
}

}  // namespace

TEST_CASE("every mapping lands in the row of what it is") {
  HandmadeSnapshot snapshot;
  snapshot.add_mapping(0x400000, 0x410000, "/opt/handmade", {.rss = 0x8000});
  snapshot.add_mapping(0x410000, 0x412000, "/opt/handmade", {.rss = 0x2000, .anonymous = 0x1000});
  snapshot.add_mapping(0x412000, 0x420000, "", {.rss = 0x3000});
  snapshot.add_mapping(0x500000, 0x600000, "", {.rss = 0x10000, .swap = 0x5000});
  snapshot.add_mapping(0x700000, 0x710000, "/lib/libx.so",
                       {.rss = 0x4000, .anonymous = 0x1000, .swap = 0x1000});
  snapshot.add_mapping(0x710000, 0x720000, "", {.rss = 0x1000});
  snapshot.add_mapping(0x800000, 0x900000, "", {.rss = 0x6000});
  snapshot.add_mapping(0xa00000, 0xb00000, "/dev/shm/segment", {.rss = 0x7000});
  snapshot.metadata.mappings.back().shared = true;
  snapshot.add_mapping(0xb00000, 0xc00000, "/var/data", {.rss = 0x9000});
  snapshot.metadata.mappings.back().shared = true;
  snapshot.add_mapping(0xc00000, 0xd00000, "", {.rss = 0x2000});
  snapshot.metadata.mappings.back().shared = true;
  snapshot.add_mapping(0xe00000, 0xf00000, "[stack]", {.rss = 0x3000});
  snapshot.add_mapping(0xf00000, 0xf02000, "[vdso]", {.rss = 0x1000});
  snapshot.metadata.threads = {thread_at(0x8ff000), thread_at(0x400010), Thread{}};

  const RssAccount account = account_of(snapshot);
  CHECK(account.basis == RssBasis::kResident);
  CHECK(account[RssRow::kFiles].resident == 0x8000 + 0x1000 + 0x3000 + 0x9000 + 0x1000);
  CHECK(account[RssRow::kFileData] == RssAccount::Amount{0x1000 + 0x3000 + 0x1000, 0x1000});
  CHECK(account[RssRow::kOtherAnonymous] == RssAccount::Amount{0x10000 + 0x1000, 0x5000});
  CHECK(account[RssRow::kStacks].resident == 0x6000 + 0x3000);
  CHECK(account[RssRow::kShared].resident == 0x7000 + 0x2000);
  CHECK(account.total == RssAccount::Amount{0x3e000, 0x6000});
}

TEST_CASE("the tracker's memory is known by name, by its list and by its library") {
  HandmadeSnapshot snapshot;
  snapshot.add_mapping(0x100000, 0x200000, "", {.rss = 0x10000, .swap = 0x1000});
  snapshot.add_mapping(0x300000, 0x400000, "", {.rss = 0x20000});
  snapshot.add_mapping(0x500000, 0x600000, "[anon:heapsnap_tables]", {.rss = 0x4000});
  snapshot.add_mapping(0x700000, 0x780000, "/memfd:libheapsnap_tracker.so", {.rss = 0x8000});
  snapshot.add_mapping(0x780000, 0x800000, "", {.rss = 0x40000});  // its .bss
  snapshot.add_mapping(0x900000, 0xa00000, "/lib/libx.so", {.rss = 0x80000});
  RssAccount account = account_of(snapshot);
  CHECK(account[RssRow::kTracker].resident == 0xc000);

  snapshot.metadata.tracker.emplace();
  // The kernel has merged what is listed with working memory. A list may say anything: a file of
  // the program's is none of the tracker's memory.
  snapshot.metadata.tracker->memory = {{Address(0x110000), Address(0x120000)},
                                       {Address(0x900000), Address(0x901000)}};
  snapshot.metadata.tracker->modules.push_back({"/memfd:libheapsnap_tracker.so (deleted)",
                                                "",
                                                0x700000,
                                                {Address(0x700000), Address(0x790000)},
                                                1,
                                                0});
  account = account_of(snapshot);
  CHECK(account[RssRow::kTracker] ==
        RssAccount::Amount{0x10000 + 0x4000 + 0x8000 + 0x40000, 0x1000});
  CHECK(account[RssRow::kOtherAnonymous].resident == 0x20000);
  CHECK(account[RssRow::kFiles].resident == 0x80000);
}

TEST_CASE("chunks explain their part of a mapping, its kind the rest") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x10000, 0x20000, "[heap]", {.rss = 0x5000, .swap = 0x1000});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x11000,
                       {{0x2000, ChunkState::kUsed}, {0x2000, ChunkState::kTop}});
  snapshot.add_pages(0x11000, 0x14000, PageState::kResident);
  snapshot.add_pages(0x14000, 0x15000, PageState::kSwapped);
  const RssAccount account = account_of(snapshot);
  CHECK(account[RssRow::kProgram] == RssAccount::Amount{0x2000 - 8, 0});
  CHECK(account[RssRow::kOverhead] == RssAccount::Amount{8, 0});
  CHECK(account[RssRow::kTop] == RssAccount::Amount{0x1000, 0x1000});
  CHECK(account[RssRow::kOtherAnonymous] == RssAccount::Amount{0x2000, 0});
  CHECK(account.total == RssAccount::Amount{0x5000, 0x1000});
  CHECK(account.disagreement == 0);
}

TEST_CASE("a mapping that shrank after the freeze is scaled down, and that is said") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x10000, 0x14000, "[heap]", {.rss = 0x1000});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                       {{0x1000, ChunkState::kTcache}, {0x3000, ChunkState::kTop}});
  snapshot.add_pages(0x10000, 0x14000, PageState::kResident);
  const RssAccount account = account_of(snapshot);
  CHECK(account[RssRow::kTcache].resident == 0x400);
  CHECK(account[RssRow::kTop].resident == 0xc00);
  CHECK(account.total.resident == 0x1000);
  CHECK(account.disagreement == 0x3000);
}

TEST_CASE("hugetlb pages are part of the table, though not of RSS") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x200000, 0x400000, "/anon_hugepage", {.hugetlb = 0x200000});
  snapshot.metadata.mappings[0].deleted = true;
  snapshot.add_segment(0, SegmentKind::kMapped, 0x200000, {{0x200000, ChunkState::kTop}});
  snapshot.add_pages(0x200000, 0x400000, PageState::kResidentHuge);
  const RssAccount account = account_of(snapshot);
  CHECK(account[RssRow::kTop].resident == 0x200000);
  CHECK(account.hugetlb == 0x200000);
  CHECK(account.total.resident - account.hugetlb == 0);
}

TEST_CASE("pages of unknown state: known when the whole mapping is resident, else unknown") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  uint64_t rss = 0;
  SUBCASE("all resident") {
    rss = 0x4000;
  }
  SUBCASE("some resident") {
    rss = 0x3000;
  }
  snapshot.add_mapping(0x10000, 0x14000, "[heap]", {.rss = rss});
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000, {{0x4000, ChunkState::kTop}});
  const RssAccount account = account_of(snapshot);
  CHECK(account[RssRow::kTop].resident == (rss == 0x4000 ? 0x4000 : 0));
  CHECK(account[RssRow::kUnknown].resident == (rss == 0x4000 ? 0 : 0x3000));
  CHECK(account.total.resident == rss);
}

TEST_CASE("a core counts by address space and says so") {
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_mapping(0x10000, 0x14000, "", {});
  snapshot.add_mapping(0x14000, 0x4000000, "", {});
  snapshot.metadata.mappings.back().readable = snapshot.metadata.mappings.back().writable = false;
  snapshot.add_mapping(0x7000000, 0x7010000, "", {});
  snapshot.metadata.usage.clear();
  snapshot.metadata.threads = {thread_at(0x7008000)};
  snapshot.add_segment(0, SegmentKind::kBrk, 0x10000,
                       {{0x1000, ChunkState::kUsed}, {0x2000, ChunkState::kTop}});
  const RssAccount account = account_of(snapshot);
  CHECK(account.basis == RssBasis::kVirtual);
  CHECK(account[RssRow::kProgram].resident == 0x1000 - 8);
  CHECK(account[RssRow::kTop].resident == 0x2000);
  CHECK(account[RssRow::kOtherAnonymous].resident == 0x1000);
  CHECK(account[RssRow::kStacks].resident == 0x10000);
  CHECK(account.total.resident == 0x14000);
}

namespace {

constexpr uint64_t kPage = 0x1000;

// A heap of chunks of any size and state over pages of any state, in mappings of any kind. When
// `consistent`, the kernel's counters are those of the pages.
HandmadeSnapshot random_snapshot(std::mt19937_64& random, bool consistent) {
  const auto below = [&random](uint64_t limit) { return random() % limit; };
  HandmadeSnapshot snapshot;
  snapshot.add_arena(true);
  snapshot.add_arena(false);
  uint64_t begin = 0x100000;
  const uint64_t mapping_count = 1 + below(12);
  for (uint64_t i = 0; i < mapping_count; ++i) {
    begin += below(3) * kPage;
    const uint64_t end = begin + (1 + below(64)) * kPage;
    MappingUsage usage;
    for (uint64_t page = begin; page < end;) {
      const uint64_t run_end = std::min(end, page + (1 + below(5)) * kPage);
      PageState state = static_cast<PageState>(below(6));
      if (consistent && state == PageState::kUnknown) state = PageState::kAbsent;
      if (below(10) != 0 || consistent) snapshot.add_pages(page, run_end, state);
      if (state == PageState::kSwapped) usage.swap += run_end - page;
      if (state == PageState::kResident || state >= PageState::kResidentFile) {
        usage.rss += run_end - page;
      }
      page = run_end;
    }
    if (!consistent) {
      usage.rss = below(end - begin + 1);
      usage.swap = below(end - begin + 1);
      usage.anonymous = below(end - begin + 1);
      usage.hugetlb = below(3) == 0 ? below(end - begin + 1) : 0;
    }
    const char* const paths[] = {"", "[heap]", "[stack]", "/lib/x.so", "[vdso]"};
    snapshot.add_mapping(begin, end, paths[below(5)], usage);
    snapshot.metadata.mappings.back().shared = below(5) == 0;

    const uint64_t use = below(3);
    if (use == 0) {
      HandmadeSnapshot::Chunks chunks;
      uint64_t at = begin + 16 * below(8);
      const uint64_t first = at;
      while (at + 64 < end) {
        const uint64_t size = std::min(end - at, 16 * (1 + below(below(4) == 0 ? 2000 : 20)));
        chunks.push_back({size, static_cast<ChunkState>(below(kChunkStateCount))});
        if (chunks.back().second == ChunkState::kUsed && below(20) == 0) {
          snapshot.metadata.heap.thread_caches.push_back({1, Address(at + 16), 0, 0, 0});
        }
        at += size;
      }
      if (!chunks.empty()) {
        snapshot.add_segment(static_cast<int32_t>(below(2)), static_cast<SegmentKind>(below(3)),
                             first, chunks);
      }
    } else if (use == 1) {
      snapshot.mmapped.push_back({Address(begin), Address(begin + 16 * below(10)), end - begin,
                                  end - begin, below(end - begin), ChunkState::kMmapped, 0});
    }
    begin = end;
  }
  return snapshot;
}

}  // namespace

TEST_CASE("for any heap the rows add up to the mappings, exactly") {
  std::mt19937_64 random(20260131);
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    const bool consistent = round % 2 == 0;
    HandmadeSnapshot snapshot = random_snapshot(random, consistent);
    uint64_t rss = 0;
    uint64_t swap = 0;
    uint64_t hugetlb = 0;
    for (const MappingUsage& usage : snapshot.metadata.usage) {
      rss += usage.rss;
      swap += usage.swap;
      hugetlb += usage.hugetlb;
    }
    const HeapSummary summary = summarize(snapshot.streams());
    const RssAccount account = account_rss(snapshot.metadata, summary);
    RssAccount::Amount sum;
    for (const RssAccount::Amount& row : account.rows) {
      sum.resident += row.resident;
      sum.swapped += row.swapped;
    }
    REQUIRE(sum == account.total);
    const RestGroups groups = group_rests(snapshot.metadata, summary, account);
    const auto amount_of = [](const std::vector<MappingGroup>& all) {
      RssAccount::Amount amount;
      for (const MappingGroup& group : all) {
        amount.resident += group.amount.resident;
        amount.swapped += group.amount.swapped;
      }
      return amount;
    };
    REQUIRE(amount_of(groups.other_memory) == account[RssRow::kOtherAnonymous]);
    REQUIRE(amount_of(groups.files) == account[RssRow::kFiles]);
    REQUIRE(amount_of(groups.file_data) == account[RssRow::kFileData]);
    REQUIRE(amount_of(groups.shared) == account[RssRow::kShared]);
    REQUIRE(account.total == RssAccount::Amount{rss + hugetlb, swap});
    REQUIRE(summary.trim.resident() + summary.kept.total() ==
            free_figures(summary.totals).pages.resident);
    // Where pages and counters agree, nothing is scaled: free memory is what the chunks say.
    if (consistent) {
      REQUIRE(account.disagreement == 0);
      uint64_t free = 0;
      for (const RssRow row : {RssRow::kTcache, RssRow::kFastbin, RssRow::kBins, RssRow::kTop}) {
        free += account[row].resident;
      }
      REQUIRE(free == free_figures(summary.totals).pages.resident);
    }
    // Every chunk's bytes are somewhere.
    for (const StateFigures& figures : summary.totals) {
      REQUIRE(figures.pages.total() == figures.chunks.bytes);
    }
    // A core of the same process.
    snapshot.metadata.usage.clear();
    const RssAccount core = account_rss(snapshot.metadata, summary);
    uint64_t size = 0;
    for (const Mapping& mapping : snapshot.metadata.mappings) size += mapping.range.size();
    uint64_t rows = 0;
    for (const RssAccount::Amount& row : core.rows) rows += row.resident;
    REQUIRE(rows == size);
    REQUIRE(core.total.resident == size);
  }
}

TEST_CASE("areas of a language runtime are told by what they consist of") {
  HandmadeSnapshot snapshot;
  snapshot.add_mapping(0x1000000, 0x1300000, "", {.rss = 0x190000, .swap = 0xd0000});
  snapshot.add_mapping(0x2000000, 0x2100000, "", {.rss = 0x100000});
  SUBCASE("two areas of a mapping that has other memory, too") {
    test::add_python(snapshot,
                     {test::area_at(0x1000000, 0x100000), test::area_at(0x1100000, 0x200000)});
    const RssAccount account = account_of(snapshot);
    CHECK(account[RssRow::kPythonObjects] == RssAccount::Amount{0x30000, 0x18000});
    CHECK(account[RssRow::kPythonPools] == RssAccount::Amount{0x60000, 0x30000});
    CHECK(account[RssRow::kPythonArenas] == RssAccount::Amount{0xf0000, 0x78000});
    CHECK(account[RssRow::kOtherAnonymous] == RssAccount::Amount{0x110000, 0x10000});
    CHECK(account.rests[0].runtime_bytes == 0x300000);
    CHECK(account.rests[1].runtime_bytes == 0);
    CHECK(account.total == RssAccount::Amount{0x290000, 0xd0000});
  }
  SUBCASE("a mapping that is resident as a whole, though nothing says which pages are") {
    RuntimeArea area = test::area_at(0x2000000, 0x100000);
    area.used = {0x20000, 0, 0};
    area.free_in_page = {0x40000, 0, 0};
    area.free_in_area = {0xa0000, 0, 0};
    test::add_python(snapshot, {area});
    const RssAccount account = account_of(snapshot);
    CHECK(account[RssRow::kPythonObjects].resident == 0x20000);
    CHECK(account[RssRow::kPythonArenas].resident == 0xa0000);
    CHECK(account[RssRow::kOtherAnonymous].resident == 0x190000);
  }
  SUBCASE("a core: address space") {
    snapshot.metadata.usage.clear();
    test::add_python(snapshot, {test::area_at(0x2000000, 0x100000)});
    const RssAccount account = account_of(snapshot);
    CHECK(account.basis == RssBasis::kVirtual);
    CHECK(account[RssRow::kPythonPools].resident == 0x40000);
    CHECK(account[RssRow::kOtherAnonymous].resident == 0x300000);
    CHECK(account.total.resident == 0x400000);
  }
  SUBCASE("Ruby's heap for young objects has a row of its own") {
    RuntimeArea area = test::area_at(0x2000000, 0x100000);
    area.is_transient = true;
    area.used = {0x20000, 0x18000, 0};
    area.free_in_page = {};
    area.free_in_area = {0xe0000, 0x28000, 0x1000};
    test::add_python(snapshot, {area});
    snapshot.metadata.runtimes.runtimes[0].kind = RuntimeKind::kRuby;
    snapshot.metadata.usage[1].swap = 0x1000;
    const RssAccount account = account_of(snapshot);
    CHECK(account[RssRow::kRubyTransient] == RssAccount::Amount{0x100000, 0x1000});
    CHECK(account[RssRow::kRubyObjects] == RssAccount::Amount{});
    CHECK(account[RssRow::kOtherAnonymous].resident == 0x190000);
  }
  SUBCASE("one that lies in two mappings, and beside them") {
    snapshot.add_mapping(0x2100000, 0x2180000, "", {.rss = 0x80000});
    test::add_python(snapshot, {test::area_at(0x2080000, 0x200000), test::area_at(0x9000000, 1)});
    const RssAccount account = account_of(snapshot);
    CHECK(account.rests[1].runtime_bytes == 0x80000);
    CHECK(account.rests[2].runtime_bytes == 0x80000);
    CHECK(account[RssRow::kPythonPools].resident == 0x40000);  // a half of what it has
    CHECK(account.total.resident == 0x190000 + 0x180000);
  }
  SUBCASE("more of them than a mapping has resident, and twice the same") {
    snapshot.metadata.usage[0].rss = 0x1000;
    test::add_python(snapshot,
                     {test::area_at(0x1000000, 0x300000), test::area_at(0x1000000, 0x300000)});
    const RssAccount account = account_of(snapshot);
    CHECK(account[RssRow::kPythonObjects].resident == 0x1000);
    CHECK(account[RssRow::kPythonPools].resident == 0);
    CHECK(account.total.resident == 0x101000);
  }
}
