#include "core/core_regions.h"

#include <doctest/doctest.h>

#include "core/core_memory.h"
#include "core_builder.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

Bytes filled(size_t size, unsigned value) {
  return Bytes(size, static_cast<std::byte>(value));
}

CoreNotes::File mapped(uint64_t begin, uint64_t end, uint64_t offset, const std::string& path) {
  return {.range = {Address(begin), Address(end)}, .offset = offset, .path = path};
}

AddressRange range(uint64_t begin, uint64_t end) {
  return {Address(begin), Address(end)};
}

void check_order(const std::vector<CoreRegion>& regions) {
  for (size_t i = 0; i < regions.size(); ++i) {
    CHECK(regions[i].range.begin < regions[i].range.end);
    CHECK(regions[i].dumped.size() <= regions[i].claimed);
    CHECK(regions[i].claimed <= regions[i].range.size());
    if (i > 0) CHECK(regions[i - 1].range.end <= regions[i].range.begin);
  }
}

}  // namespace

TEST_CASE("segments joined with the files that were mapped there") {
  const Bytes bytes = make_core(
      Machine::kX86_64, {},
      {{.address = 0x1000, .memory_size = 0x3000, .flags = PF_R, .contents = filled(0x1000, 1)},
       {.address = 0x8000,
        .memory_size = 0x2000,
        .flags = PF_R | PF_W,
        .contents = filled(0x2000, 2)}});
  const auto core = ElfHeaders::parse(bytes, "core");
  // One file begins in the middle of a segment; another has no segment at all.
  const std::vector<CoreNotes::File> files = {mapped(0x2000, 0x4000, 0x5000, "/a"),
                                              mapped(0xc000, 0xd000, 0, "/b")};
  const auto regions = core_regions({}, &core, files);
  check_order(regions);
  REQUIRE(regions.size() == 4);
  CHECK(regions[0].range == range(0x1000, 0x2000));
  CHECK(regions[0].file == nullptr);
  CHECK(regions[0].dumped.size() == 0x1000);
  CHECK(regions[1].range == range(0x2000, 0x4000));
  CHECK(regions[1].file == &files[0]);
  CHECK(regions[1].file_offset == 0x5000);
  CHECK(regions[1].claimed == 0);
  CHECK(regions[2].range == range(0x8000, 0xa000));
  CHECK(regions[2].flags == (PF_R | PF_W));
  CHECK(regions[3].file == &files[1]);
  CHECK_FALSE(regions[3].flags_known);
}

TEST_CASE("overlaps: images hide the core, of segments the lower one counts") {
  const Bytes bytes = make_core(
      Machine::kX86_64, {},
      {{.address = 0x3000, .memory_size = 0x3000, .flags = PF_R, .contents = filled(0x3000, 3)},
       {.address = 0x1000, .memory_size = 0x3000, .flags = PF_R, .contents = filled(0x3000, 1)},
       {.address = UINT64_MAX - 0xfff,
        .memory_size = 0x2000,
        .flags = PF_R,
        .contents = filled(16, 9)}});
  const auto core = ElfHeaders::parse(bytes, "core");
  const Bytes image = filled(0x800, 7);
  auto regions = core_regions({{Address(0x1800), image}}, &core, {});
  check_order(regions);
  REQUIRE(regions.size() == 4);  // the one that wraps around is damage
  CHECK(regions[3].range == range(0x4000, 0x6000));
  CoreMemory memory(std::move(regions));
  Bytes out(0x5000);
  CHECK(memory.read(Address(0x1000), out) == 0x5000);
  CHECK(out[0x7ff] == std::byte{1});
  CHECK(out[0x800] == std::byte{7});
  CHECK(out[0xfff] == std::byte{7});
  CHECK(out[0x1000] == std::byte{1});
  CHECK(out[0x2fff] == std::byte{1});
  CHECK(out[0x3000] == std::byte{3});
}

TEST_CASE("memory: what was meant to be dumped never comes from the file") {
  const Bytes dumped = filled(0x800, 1);
  const Bytes file = filled(0x3000, 5);
  CoreRegion region;
  region.range = range(0x1000, 0x4000);
  region.claimed = 0x1000;  // cut off after 0x800
  region.dumped = dumped;
  region.from_file = file;
  CoreRegion hole;
  hole.range = range(0x4000, 0x5000);
  CoreMemory memory({region, hole});
  Bytes out(0x4000);
  CHECK(memory.read(Address(0x1000), out) == 0x800);
  CHECK(memory.read(Address(0x1800), out) == 0);
  CHECK(memory.read(Address(0x2000), out) == 0x2000);
  CHECK(out[0] == std::byte{5});
  CHECK(memory.read(Address(0x4000), out) == 0);
  CHECK(memory.read(Address(0xfff), out) == 0);
  CHECK(memory.read(Address(UINT64_MAX), out) == 0);
  CHECK(memory.read_value<uint8_t>(Address(0x17ff)) == 1);
  CHECK_FALSE(memory.read_value<uint16_t>(Address(0x17ff)));
}

TEST_CASE("memory: from part to part of what is there") {
  const Bytes dumped = filled(0x800, 1);
  const Bytes file = filled(0x1000, 5);
  CoreRegion held;
  held.range = range(0x1000, 0x400000000000);
  held.claimed = 0x1000;
  held.dumped = dumped;
  CoreRegion listed;
  listed.range = range(0x400000000000, 0x400000001000);
  CoreRegion mapped;
  mapped.range = range(0x500000000000, 0x500000002000);
  mapped.from_file = file;
  CoreMemory memory({held, listed, mapped});
  const AddressRange all = range(0, 0x600000000000);
  CHECK(memory.next_readable(all) == range(0x1000, 0x1800));
  CHECK(memory.next_readable(range(0x1400, 0x1500)) == range(0x1400, 0x1500));
  CHECK(memory.next_readable({Address(0x1800), all.end}) == range(0x500000000000, 0x500000001000));
  CHECK(memory.next_readable(range(0x1800, 0x500000000000)).is_empty());
  CHECK(memory.next_readable({Address(0x500000001000), all.end}).is_empty());
  CHECK(memory.next_readable({Address(0x500000000800), Address(UINT64_MAX)}) ==
        range(0x500000000800, 0x500000001000));
}

TEST_CASE("a slice keeps each byte at its address") {
  Bytes dumped;
  for (int i = 0; i < 0x100; ++i) dumped.push_back(static_cast<std::byte>(i));
  CoreRegion region;
  region.range = range(0x1000, 0x1200);
  region.claimed = 0x100;
  region.dumped = dumped;
  region.file_offset = 0x7000;
  const CoreRegion middle = region.slice(Address(0x1080), Address(0x10c0));
  CHECK(middle.claimed == 0x40);
  REQUIRE(middle.dumped.size() == 0x40);
  CHECK(middle.dumped[0] == std::byte{0x80});
  CHECK(middle.file_offset == 0x7080);
  const CoreRegion tail = region.slice(Address(0x1180), Address(0x1200));
  CHECK(tail.claimed == 0);
  CHECK(tail.dumped.empty());
}

TEST_CASE("residency of a core is unknown where something is mapped") {
  Mapping mapping;
  mapping.range = range(0x1000, 0x3000);
  const AddressSpace address_space({mapping});
  CoreResidency residency(address_space, 0x1000);
  std::vector<PageState> states(4, PageState::kSwapped);
  residency.read(Address(0), states);
  CHECK(states == std::vector{PageState::kAbsent, PageState::kUnknown, PageState::kUnknown,
                              PageState::kAbsent});
}
