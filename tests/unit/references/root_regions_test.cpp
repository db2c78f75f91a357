#include "references/root_regions.h"

#include <doctest/doctest.h>

#include "fake_module.h"
#include "fake_pthreads.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

constexpr Address kLibrary{0x7f0000300000};

struct RegionFixture {
  FakeTarget target{Machine::kX86_64};
  HeapModel heap;
  std::vector<LocatedMalloc> mallocs;
  std::vector<AddressRange> mmapped, tracker;

  RootRegions find() {
    const LoadedModules modules(target);
    return find_root_regions(target, modules, heap, {mallocs, mmapped, tracker});
  }
  std::vector<std::pair<RootKind, AddressRange>> ranges() {
    std::vector<std::pair<RootKind, AddressRange>> found;
    for (const RootRegion& region : find().regions) found.emplace_back(region.kind, region.range);
    return found;
  }
};

std::pair<RootKind, AddressRange> expected_region(RootKind kind, uint64_t begin, uint64_t end) {
  return {kind, {Address(begin), Address(end)}};
}

using Regions = std::vector<std::pair<RootKind, AddressRange>>;

}  // namespace

TEST_CASE(
    "what the process can write, or could, and no devices, kernel's pages or files it reads") {
  RegionFixture fixture;
  fixture.target.map("10000-11000 rw-p 00000000 00:00 0");
  fixture.target.map("20000-21000 r--p 00000000 00:00 0");
  fixture.target.map("30000-31000 ---p 00000000 00:00 0");
  fixture.target.map("40000-41000 rw-s 00000000 00:01 5 /dev/zero (deleted)");
  fixture.target.map("50000-51000 r--s 00000000 00:01 6 /dev/shm/read");
  fixture.target.map("60000-61000 rw-s 00000000 00:05 7 /dev/nvidia0");
  fixture.target.map("70000-71000 rw-p 00000000 08:01 8 /data/private");
  fixture.target.map("80000-81000 r--p 00000000 08:01 8 /data/private");
  fixture.target.map("90000-91000 rw-s 00000000 00:0e 9 anon_inode:[io_uring]");
  fixture.target.map("a0000-a1000 rwxp 00000000 00:00 0");
  fixture.target.map("b0000-b1000 rw-p 00000000 00:0f 10 /anon_hugepage (deleted)");
  fixture.target.map("c0000-c1000 r--p 00000000 00:00 0 [vvar]");
  fixture.target.map("d0000-d1000 r-xp 00000000 00:00 0 [vdso]");
  fixture.target.map("e0000-e1000 rw-s 00000000 00:01 11 /SYSV00000000 (deleted)");
  fixture.target.map("f0000-f1000 r--s 00000000 00:01 12 /memfd:sealed (deleted)");
  const Regions expected = {expected_region(RootKind::kMapping, 0x10000, 0x11000),
                            expected_region(RootKind::kMapping, 0x20000, 0x21000),
                            expected_region(RootKind::kMapping, 0x40000, 0x41000),
                            expected_region(RootKind::kMapping, 0x70000, 0x71000),
                            expected_region(RootKind::kMapping, 0xa0000, 0xa1000),
                            expected_region(RootKind::kMapping, 0xb0000, 0xb1000),
                            expected_region(RootKind::kMapping, 0xe0000, 0xe1000),
                            expected_region(RootKind::kMapping, 0xf0000, 0xf1000)};
  CHECK(fixture.ranges() == expected);
  const RootRegions found = fixture.find();
  CHECK(found.regions[2].is_shared);
  CHECK_FALSE(found.regions[0].is_shared);
  CHECK(found.regions[2].mapping == 3);
}

TEST_CASE("of a private mapping of a file that is protected, the pages that were written before") {
  RegionFixture fixture;
  fixture.target.map("10000-15000 r--p 00000000 08:01 8 /data/image");
  fixture.target.set_state(Address(0x11000), PageState::kResident);
  fixture.target.set_state(Address(0x12000), PageState::kSwapped);
  fixture.target.set_state(Address(0x13000), PageState::kResidentFile);
  fixture.target.map("20000-21000 r-xp 00000000 08:01 9 /data/code");
  fixture.target.set_state(Address(0x20000), PageState::kResident);
  const Regions expected = {expected_region(RootKind::kMapping, 0x11000, 0x13000),
                            expected_region(RootKind::kMapping, 0x20000, 0x21000)};
  CHECK(fixture.ranges() == expected);
}

TEST_CASE("of memory that may not be read, the pages that are there") {
  RegionFixture fixture;
  fixture.target.map("10000-20000 ---p 00000000 00:00 0");
  for (uint64_t page = 0x10000; page < 0x20000; page += 0x1000) {
    fixture.target.set_state(Address(page), PageState::kAbsent);
  }
  fixture.target.set_state(Address(0x11000), PageState::kResident);
  fixture.target.set_state(Address(0x12000), PageState::kResidentHuge);
  fixture.target.set_state(Address(0x1f000), PageState::kSwapped);
  fixture.target.map("30000-32000 -w-p 00000000 00:00 0");
  fixture.target.set_state(Address(0x31000), PageState::kResident);
  const Regions expected = {expected_region(RootKind::kMapping, 0x11000, 0x13000),
                            expected_region(RootKind::kMapping, 0x1f000, 0x20000),
                            expected_region(RootKind::kMapping, 0x31000, 0x32000)};
  CHECK(fixture.ranges() == expected);
}

TEST_CASE("of memory that may not be read, pages that are far apart") {
  RegionFixture fixture;
  constexpr uint64_t kFar = 16 << 20;
  fixture.target.map("100000000-1c8000000 ---p 00000000 00:00 0");
  fixture.target.make_others_absent();
  for (uint64_t i = 0; i < 200; ++i) {
    fixture.target.set_state(Address(0x100000000 + i * kFar), PageState::kResident);
  }
  const RootRegions found = fixture.find();
  CHECK(found.regions.size() == 200);
  CHECK(found.bytes_left_out == 0);
}

TEST_CASE("of memory that may not be read, no more than can be asked for, the smallest first") {
  RegionFixture fixture;
  fixture.target.map("10000-11000 rw-p 00000000 00:00 0");
  fixture.target.map("100000000-600000000 ---p 00000000 00:00 0");
  fixture.target.map("700000000-700001000 ---p 00000000 00:00 0");
  fixture.target.set_state(Address(0x700000000), PageState::kResident);
  fixture.target.map("800000000-800001000 rw-p 00000000 00:00 0");
  const RootRegions found = fixture.find();
  const Regions expected = {expected_region(RootKind::kMapping, 0x10000, 0x11000),
                            expected_region(RootKind::kMapping, 0x700000000, 0x700001000),
                            expected_region(RootKind::kMapping, 0x800000000, 0x800001000)};
  CHECK(fixture.ranges() == expected);
  CHECK(found.bytes_left_out == (uint64_t{4} << 30) + 0x1000);
}

TEST_CASE("data of a module with RELRO, without the code") {
  RegionFixture fixture;
  FakeModule().load(fixture.target, kLibrary, "/lib/libfoo.so");
  const uint64_t base = kLibrary.value();
  const Regions expected = {expected_region(RootKind::kVariable, base + 0x1000, base + 0x2000),
                            expected_region(RootKind::kVariable, base + 0x2000, base + 0x3000),
                            expected_region(RootKind::kVariable, base + 0x3000, base + 0x4000)};
  CHECK(fixture.ranges() == expected);
  CHECK(fixture.find().regions[0].module == 0);
}

TEST_CASE("malloc's memory and the tracker's are no roots") {
  RegionFixture fixture;
  FakeModule().load(fixture.target, kLibrary, "/lib/libc.so.6");
  fixture.target.map("555500000000-555500021000 rw-p 00000000 00:00 0 [heap]");
  fixture.target.map("7e0000000000-7e0000021000 rw-p 00000000 00:00 0");
  fixture.target.map("7f0000000000-7f0000100000 rw-p 00000000 00:00 0");
  LocatedMalloc malloc;
  malloc.layout = *MallocLayout::for_version(Machine::kX86_64, {2, 36});
  malloc.instance.main_arena = kLibrary + 0x2100;
  malloc.instance.malloc_par = kLibrary + 0x2020;
  fixture.mallocs = {malloc};
  Arena arena;
  arena.address = malloc.instance.main_arena;
  fixture.heap.arenas = {arena};
  // A foreign sbrk call cut the break in two, and ld.so took some bytes first.
  fixture.heap.segments = {
      {{Address(0x555500000290), Address(0x555500008000)}, 0, SegmentKind::kBrk, 0},
      {{Address(0x555500009000), Address(0x555500021000)}, 0, SegmentKind::kBrk, 0},
      {{Address(0x7e00000008d0), Address(0x7e0000021000)}, 0, SegmentKind::kThreadHeap, 0}};
  fixture.mmapped = {{Address(0x7f0000010000), Address(0x7f0000050000)}};
  fixture.tracker = {{Address(0x7f0000080000), Address(0x7f0000090000)},
                     {Address(0x7f0000088000), Address(0x7f0000098003)}};
  const uint64_t base = kLibrary.value();
  const uint64_t par_end = base + 0x2020 + malloc.layout.par.size;
  const uint64_t arena_end = base + 0x2100 + malloc.layout.state.size;
  const Regions expected = {expected_region(RootKind::kMapping, 0x555500000000, 0x555500000290),
                            expected_region(RootKind::kMapping, 0x555500008000, 0x555500009000),
                            expected_region(RootKind::kMapping, 0x7f0000000000, 0x7f0000010000),
                            expected_region(RootKind::kMapping, 0x7f0000050000, 0x7f0000080000),
                            expected_region(RootKind::kMapping, 0x7f0000098008, 0x7f0000100000),
                            expected_region(RootKind::kVariable, base + 0x1000, base + 0x2000),
                            expected_region(RootKind::kVariable, base + 0x2000, base + 0x2020),
                            expected_region(RootKind::kVariable, par_end, base + 0x2100),
                            expected_region(RootKind::kVariable, arena_end, base + 0x3000),
                            expected_region(RootKind::kVariable, base + 0x3000, base + 0x4000)};
  CHECK(fixture.ranges() == expected);
}

TEST_CASE("of a thread's stack: not what is below the stack pointer, and its storage by itself") {
  RegionFixture fixture;
  FakePthreads threads(fixture.target);
  fixture.target.map("7f0000000000-7f0000010000 rw-p 00000000 00:00 0");
  fixture.target.map("7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]");
  const Address block = threads.add({Address(0x7f0000000000), Address(0x7f0000010000)}, 12);
  threads.run(12, block, Address(0x7f0000008000));
  const Regions expected = {expected_region(RootKind::kStack, 0x7f0000007f80, block.value()),
                            expected_region(RootKind::kThreadLocal, block.value(), 0x7f0000010000),
                            // No thread has its stack pointer there: all of it counts.
                            expected_region(RootKind::kStack, 0x7ffc00000000, 0x7ffc00021000)};
  CHECK(fixture.ranges() == expected);
  const RootRegions found = fixture.find();
  CHECK(found.regions[0].tid == 12);
  CHECK(found.regions[1].thread_pointer == block);
}

TEST_CASE("a stack in a block is malloc's, and a root by its thread's registers") {
  RegionFixture fixture;
  FakePthreads threads(fixture.target);
  fixture.target.map("7f0000000000-7f0000040000 rw-p 00000000 00:00 0");
  const Address block = threads.add({Address(0x7f0000000010), Address(0x7f0000010010)}, 12);
  threads.run(12, block, Address(0x7f0000008000));
  fixture.mmapped = {{Address(0x7f0000000000), Address(0x7f0000040000)}};
  CHECK(fixture.ranges().empty());
  const auto words = register_words(fixture.target);
  REQUIRE(words.size() == 1);  // no more are known of this thread
  CHECK(words[0] == RegisterWord{12, RegisterWord::kThreadPointer, block.value()});
  fixture.target.editable_threads()[0].registers->general.are_known = true;
  fixture.target.editable_threads()[0].registers->general.values[7] = 0x7f0000008000;
  CHECK(register_words(fixture.target).size() == 17);
  CHECK(register_words(fixture.target)[7] == RegisterWord{12, 7, 0x7f0000008000});
  fixture.target.editable_threads()[0].registers->other_base = 0x7f0000009000;
  CHECK(register_words(fixture.target).back() ==
        RegisterWord{12, RegisterWord::kOtherBase, 0x7f0000009000});
}

TEST_CASE("a module of which no file can be opened is known by its headers in memory") {
  RegionFixture fixture;
  FakeModule module;
  module.load(fixture.target, kLibrary, "/lib/libgone.so");
  fixture.target.add_file("/lib/libgone.so", {});
  const Bytes bytes = module.bytes();
  fixture.target.put_bytes(kLibrary, std::span(bytes).first(0x1000));
  const LoadedModules modules(fixture.target);
  REQUIRE(modules.all().size() == 1);
  CHECK(modules[0].file->is_from_memory);
  CHECK(modules[0].bias == kLibrary);
  CHECK(modules[0].range == AddressRange{kLibrary, kLibrary + FakeModule::kEnd});
  CHECK(modules.find(kLibrary + 0x2345) == 0);
  CHECK(modules.find(kLibrary + FakeModule::kEnd) == LoadedModules::kNone);
  CHECK(modules.find(kLibrary - 1) == LoadedModules::kNone);
  CHECK(fixture.ranges().size() == 3);
}

TEST_CASE("a module whose segments lie anywhere") {
  RegionFixture fixture;
  fixture.target.map("10000-11000 r-xp 00000000 08:01 4711 /lib/wild.so");
  fixture.target.map("20000-21000 rw-p 00000000 00:00 0");
  ElfBuilder builder(Machine::kX86_64, ET_DYN);
  builder.segment({PT_LOAD, PF_R | PF_X, 0, 0, 0x1000, 0x1000, 0x1000})
      .segment({PT_LOAD, PF_R | PF_W, 0, UINT64_MAX - 16, 0, UINT64_MAX, 0x1000})
      .segment({PT_LOAD, PF_R | PF_W, 0, 0x10000, 0, UINT64_MAX, 3})
      .segment({PT_TLS, PF_R, 0, 0, 0, UINT64_MAX, 1});
  fixture.target.add_file("/lib/wild.so", builder.finish());
  FakePthreads threads(fixture.target);
  threads.run(1, Address(0x20800), Address(0x20400));
  for (const RootRegion& region : fixture.find().regions) {
    CHECK(region.range.begin >= Address(0x20000));
    CHECK(region.range.end <= Address(0x21000));
  }
}
