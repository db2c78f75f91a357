#include "analysis/mapping_groups.h"

#include <doctest/doctest.h>

#include "tests/unit/analysis/handmade_snapshot.h"
#include "tests/unit/byte_units.h"

using namespace heapsnap;
using namespace heapsnap::test;
using test::HandmadeSnapshot;

namespace {

constexpr uint64_t kKiB = 1 << 10;

// Mappings apart from each other, all of them resident.
struct Apart : HandmadeSnapshot {
  uint64_t next = 0x7f0000000000;

  Mapping& add(uint64_t size, const std::string& path = "", uint64_t gap = 3 * kMiB + 4 * kKiB) {
    add_mapping(next, next + size, path, {.rss = size});
    next += size + gap;
    return metadata.mappings.back();
  }
  // A mapping without access right below what comes next.
  void add_guard(uint64_t size) {
    Mapping& guard = add(size, "", 0);
    guard.readable = guard.writable = false;
    metadata.usage.back().rss = 0;
  }

  std::vector<MappingGroup> groups(size_t most = 10) const {
    const HeapSummary summary = summarize(streams());
    return group_other_memory(metadata, summary, account_rss(metadata, summary), most);
  }
};

const MappingGroup* find(const std::vector<MappingGroup>& groups, MappingKind kind) {
  for (const MappingGroup& group : groups) {
    if (group.kind == kind) return &group;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("anonymous memory is put together by name, rights and size, the largest first") {
  Apart apart;
  apart.add(64 * kMiB);
  for (int i = 0; i < 4; ++i) apart.add(4 * kMiB);
  apart.add(3 * kMiB).executable = true;
  apart.add(kMiB, "[anon:v8 zone]");
  apart.add(kMiB, "[anon:v8 zone]");
  apart.add(12 * kKiB);
  apart.add(8 * kKiB);
  Mapping& huge = apart.add(2 * kMiB, "/anon_hugepage");
  huge.deleted = true;
  const auto groups = apart.groups();
  REQUIRE(groups.size() == 6);
  const RssAccount::Amount largest{64 * kMiB, 0};
  CHECK(groups[0].kind == MappingKind::kLarge);
  CHECK(groups[0].amount == largest);
  CHECK(groups[1].kind == MappingKind::kSameSize);
  CHECK(groups[1].count == 4);
  CHECK(groups[1].size == 4 * kMiB);
  CHECK(groups[2].kind == MappingKind::kCode);
  REQUIRE(find(groups, MappingKind::kNamed) != nullptr);
  CHECK(find(groups, MappingKind::kNamed)->name == "[anon:v8 zone]");
  CHECK(find(groups, MappingKind::kNamed)->count == 2);
  CHECK(find(groups, MappingKind::kHugePages)->size == 2 * kMiB);
  CHECK(groups.back().kind == MappingKind::kOthers);
  CHECK(groups.back().count == 2);
  CHECK(groups.back().amount.resident == 20 * kKiB);
}

TEST_CASE("three mappings of one size are no arenas, and too many groups become one") {
  Apart apart;
  for (int i = 0; i < 3; ++i) apart.add(4 * kMiB);
  CHECK(find(apart.groups(), MappingKind::kSameSize) == nullptr);
  const auto groups = apart.groups(2);
  REQUIRE(groups.size() == 3);
  CHECK(groups[2].kind == MappingKind::kOthers);
  CHECK(groups[2].amount.resident == 4 * kMiB);
}

TEST_CASE("a runtime's memory is recognised by how it is cut, where the runtime is mapped") {
  Apart apart;
  std::string module;
  MappingKind kind{};
  uint64_t begin = 0;
  uint64_t size = 0;
  SUBCASE("CPython 3.11") {
    module = "/usr/lib/libpython3.11.so.1.0";
    kind = MappingKind::kPython;
    begin = 0x7e0000023000;
    size = 3 * kMiB;
  }
  SUBCASE("CPython 3.9") {
    module = "/usr/bin/python3.9";
    kind = MappingKind::kPython;
    begin = 0x7e0000023000;
    size = 768 * kKiB;
  }
  SUBCASE("Ruby") {
    module = "/usr/lib/libruby-3.1.so.3.1.7";
    kind = MappingKind::kRuby;
    begin = 0x7e0000014000;
    size = 3040 * kKiB;
  }
  SUBCASE("Ruby with larger pages") {
    module = "/usr/lib/libruby.so.3.3.0";
    kind = MappingKind::kRuby;
    begin = 0x7e0000010000;
    size = 640 * kKiB;
  }
  SUBCASE("node") {
    module = "/usr/bin/node";
    kind = MappingKind::kV8;
    begin = 0x7e0000040000;
    size = 256 * kKiB;
  }
  SUBCASE("a JVM") {
    module = "/usr/lib/jvm/lib/server/libjvm.so";
    kind = MappingKind::kJava;
    begin = 0x7e0000100000;
    size = 900 * kKiB;
  }
  apart.add_mapping(begin, begin + size, "", {.rss = size});
  CHECK(find(apart.groups(), kind) == nullptr);
  apart.add(2 * kMiB, module);
  const auto groups = apart.groups();
  const MappingGroup* const found = find(groups, kind);
  REQUIRE(found != nullptr);
  CHECK(found->amount.resident == size);
  CHECK(found->evidence == module.substr(module.rfind('/') + 1));
  // One page more or elsewhere, and it is nobody's.
  apart.metadata.mappings[0].range.begin += 4 * kKiB;
  apart.metadata.mappings[0].range.end += kind == MappingKind::kPython ? 0 : 4 * kKiB;
  CHECK(find(apart.groups(), kind) == nullptr);
}

TEST_CASE("names that only begin like a runtime's are none") {
  for (const char* path : {"/opt/rubysomething", "/opt/nodes", "/opt/python3",
                           "/opt/libpython2.7.so", "/opt/python3.x", "/opt/libjvm.so.1"}) {
    CAPTURE(path);
    Apart apart;
    apart.add_mapping(0x7e0000000000, 0x7e0000200000, "", {.rss = 2 * kMiB});
    apart.add(kMiB, path);
    CHECK(apart.groups()[0].kind == MappingKind::kLarge);
  }
}

TEST_CASE("stacks are known by the guard page below and a size that stacks have") {
  Apart apart;
  SUBCASE("of the default size") {
    apart.add_guard(4 * kKiB);
    apart.add(8 * kMiB - 4 * kKiB);
    CHECK(find(apart.groups(), MappingKind::kStacks)->count == 1);
  }
  SUBCASE("of the size of a thread's") {
    apart.add_guard(4 * kKiB);
    apart.add(1020 * kKiB);
    Thread thread;
    thread.registers = Registers{{}, apart.metadata.mappings.back().range.begin + 512 * kKiB, {}};
    apart.metadata.threads = {thread};
    CHECK(find(apart.groups(), MappingKind::kStacks) == nullptr);
    apart.add_guard(4 * kKiB);
    apart.add(1020 * kKiB);
    CHECK(find(apart.groups(), MappingKind::kStacks)->count == 1);
  }
  SUBCASE("two of one size") {
    apart.add_guard(4 * kKiB);
    apart.add(644 * kKiB);
    CHECK(find(apart.groups(), MappingKind::kStacks) == nullptr);
    apart.add_guard(4 * kKiB);
    apart.add(644 * kKiB);
    CHECK(find(apart.groups(), MappingKind::kStacks)->count == 2);
  }
  SUBCASE("not above a large mapping without access") {
    apart.add_guard(64 * kKiB);
    apart.add(8 * kMiB - 64 * kKiB);
    CHECK(find(apart.groups(), MappingKind::kStacks) == nullptr);
  }
  SUBCASE("not where something lies between") {
    apart.add_guard(4 * kKiB);
    apart.next += 4 * kKiB;
    apart.add(8 * kMiB - 4 * kKiB);
    CHECK(find(apart.groups(), MappingKind::kStacks) == nullptr);
  }
}

TEST_CASE("where another allocator answers malloc, anonymous memory is probably its") {
  Apart apart;
  apart.add(20 * kMiB);
  apart.add(kMiB, "[heap]");
  apart.metadata.heap.foreign_allocator = "jemalloc";
  CHECK(find(apart.groups(), MappingKind::kAllocator) == nullptr);
  apart.metadata.heap.foreign_answers_malloc = true;
  const auto groups = apart.groups();
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].kind == MappingKind::kAllocator);
  CHECK(groups[0].evidence == "jemalloc");
  CHECK(groups[0].count == 2);
}

TEST_CASE("what malloc has of a mapping is no part of a group") {
  Apart apart;
  apart.add_arena(true);
  apart.add_mapping(0x1000000, 0x1000000 + 3 * kMiB, "", {.rss = 3 * kMiB});
  apart.mmapped.push_back({Address(0x1000000), Address(0x1000000), 2 * kMiB, 2 * kMiB,
                           2 * kMiB - 16, ChunkState::kMmapped, 0});
  apart.add_pages(0x1000000, 0x1000000 + 3 * kMiB, PageState::kResident);
  const auto groups = apart.groups();
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].size == kMiB);
  CHECK(groups[0].amount.resident == kMiB);
}

TEST_CASE("files are listed by what is resident of them") {
  Apart apart;
  apart.add(2 * kMiB, "/lib/a.so");
  apart.add(kMiB, "/var/b.db");
  apart.add(2 * kMiB, "/var/b.db");
  for (const char* path : {"/lib/c.so", "/lib/d.so"}) apart.add(kMiB, path);
  const HeapSummary summary = summarize(apart.streams());
  const RssAccount account = account_rss(apart.metadata, summary);
  const auto files = group_by_file(apart.metadata, account, RssRow::kFiles, 2);
  REQUIRE(files.size() == 3);
  CHECK(files[0].name == "/var/b.db");
  CHECK(files[0].amount.resident == 3 * kMiB);
  CHECK(files[1].name == "/lib/a.so");
  CHECK(files[2].kind == MappingKind::kOthers);
  CHECK(files[2].count == 2);
}

TEST_CASE("private pages are of the file, and the executable's .bss with its data") {
  HandmadeSnapshot snapshot;
  const std::string exe = snapshot.metadata.process.exe;
  snapshot.add_mapping(0x400000, 0x500000, exe,
                       {.rss = 0x9000, .anonymous = 0x4000, .swap = 0x1000});
  snapshot.add_mapping(0x500000, 0x700000, "", {.rss = kMiB});
  snapshot.add_mapping(0x800000, 0x900000, "/lib/a.so", {.rss = 0x8000, .anonymous = 0x5000});
  snapshot.add_mapping(0xa00000, 0xb00000, "/lib/b.so", {.rss = 0x8000});
  const HeapSummary summary = summarize(snapshot.streams());
  const RssAccount account = account_rss(snapshot.metadata, summary);
  const auto files = group_by_file(snapshot.metadata, account, RssRow::kFileData, 2);
  REQUIRE(files.size() == 2);
  CHECK(files[0].name == exe);
  CHECK(files[0].amount == RssAccount::Amount{kMiB + 0x4000, 0x1000});
  CHECK(files[1].name == "/lib/a.so");
  CHECK(files[1].amount == RssAccount::Amount{0x5000, 0});
}
