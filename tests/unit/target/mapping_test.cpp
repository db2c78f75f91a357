#include "target/mapping.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "target/address_space.h"

using namespace heapsnap;

TEST_CASE("a line of maps is taken apart") {
  const auto mappings = parse_maps(
      "55d0c8a00000-55d0c8a21000 rw-p 00000000 00:00 0                          [heap]\n"
      "7f0000000000-7f0000001000 r-xp 00002000 fe:01 42                         /usr/lib/a b.so\n"
      "7f0000002000-7f0000003000 rw-s 00000000 00:01 77                         /x\\012y "
      "(deleted)\n");
  REQUIRE(mappings.size() == 3);
  CHECK(mappings[0].path == "[heap]");
  CHECK(mappings[0].is_private_writable());
  CHECK(mappings[1].executable);
  CHECK(mappings[1].file_offset == 0x2000);
  CHECK(mappings[1].device_major == 0xfe);
  CHECK(mappings[1].inode == 42);
  CHECK(mappings[1].path == "/usr/lib/a b.so");
  CHECK(mappings[2].shared);
  CHECK(mappings[2].deleted);
  CHECK(mappings[2].path == "/x\ny");
}

TEST_CASE("damaged maps are refused") {
  CHECK_THROWS_AS(parse_maps("nonsense\n"), Error);
  CHECK_THROWS_AS(parse_maps("2000-1000 rw-p 0 00:00 0\n"), Error);
  CHECK_THROWS_AS(parse_maps("1000-3000 rw-p 0 00:00 0\n2000-4000 rw-p 0 00:00 0\n"), Error);
  CHECK_THROWS_AS(parse_smaps("Rss: 4 kB\n"), Error);
  CHECK_THROWS_AS(parse_smaps("1000-3000 rw-p 0 00:00 0\nRss: x kB\n"), Error);
}

TEST_CASE("the maps of a process that ran on are mended: the later line is the newer truth") {
  const char* torn =
      "1000-3000 rw-p 0 00:00 0\n4000-5000 rw-p 0 00:00 0\n2000-6000 rw-p 0 00:00 0\n";
  const auto mappings = parse_maps(torn, TornText::kMend);
  REQUIRE(mappings.size() == 2);
  CHECK(mappings[0].range == AddressRange{Address(0x1000), Address(0x2000)});
  CHECK(mappings[1].range == AddressRange{Address(0x2000), Address(0x6000)});
  const auto usage =
      parse_smaps("1000-2000 rw-p 0 00:00 0\nRss: 4 kB\n1000-3000 rw-p 0 00:00 0\nRss: 8 kB\n",
                  TornText::kMend);
  REQUIRE(usage.usage.size() == usage.mappings.size());
  REQUIRE(usage.usage.size() == 1);
  CHECK(usage.usage[0].rss == 8192);
}

TEST_CASE("smaps gives the pages of each mapping") {
  const auto parsed = parse_smaps(
      "1000-3000 rw-p 00000000 00:00 0 \n"
      "Size:                  8 kB\n"
      "Rss:                   4 kB\n"
      "Swap:                  4 kB\n"
      "VmFlags: rd wr mr mw me ac sd\n"
      "5000-6000 r--p 00000000 00:00 0 \n"
      "Anonymous:             4 kB\n");
  REQUIRE(parsed.mappings.size() == 2);
  CHECK(parsed.usage[0].rss == 4096);
  CHECK(parsed.usage[0].swap == 4096);
  CHECK(parsed.usage[1].rss == 0);
  CHECK(parsed.usage[1].anonymous == 4096);
  CHECK(parsed.flags == std::vector<MappingFlags>(2));
}

TEST_CASE("smaps tells what a fork leaves out") {
  const auto parsed = parse_smaps(
      "1000-3000 rw-p 0 00:00 0\nVmFlags: rd wr mr mw me dc ac sd \n"
      "3000-4000 rw-p 0 00:00 0\nRss: 4 kB\nVmFlags: rd wr wf\n"
      "5000-6000 rw-p 0 00:00 0\nVmFlags: rd um\n7000-8000 rw-p 0 00:00 0\nVmFlags:\n"
      "200000-400000 rw-p 0 00:10 7 /anon_hugepage (deleted)\nVmFlags: rd wr de ht\n");
  REQUIRE(parsed.flags.size() == 5);
  CHECK(parsed.flags[0] == MappingFlags{.left_out = true});
  CHECK(parsed.flags[1] == MappingFlags{.wiped = true});
  CHECK(parsed.flags[2] == MappingFlags{.on_demand = true});
  CHECK(parsed.flags[3] == MappingFlags{});
  CHECK(parsed.flags[4] == MappingFlags{.hugetlb = true});
}

TEST_CASE("mappings laid over others leave what is outside of them") {
  const std::vector<Mapping> below = parse_maps(
      "10000-20000 ---p 00000000 00:00 0\n"
      "20000-30000 r--p 00004000 08:01 7 /data/a\n"
      "50000-60000 rw-p 00000000 00:00 0\n");
  const std::vector<Mapping> above = parse_maps(
      "12000-14000 rw-p 00000000 00:00 0\n"
      "1f000-22000 rw-p 00000000 00:00 0\n"
      "40000-41000 rw-p 00000000 00:00 0\n"
      "70000-71000 rw-p 00000000 00:00 0\n");
  const std::vector<Mapping> expected = parse_maps(
      "10000-12000 ---p 00000000 00:00 0\n"
      "12000-14000 rw-p 00000000 00:00 0\n"
      "14000-1f000 ---p 00000000 00:00 0\n"
      "1f000-22000 rw-p 00000000 00:00 0\n"
      "22000-30000 r--p 00006000 08:01 7 /data/a\n"
      "40000-41000 rw-p 00000000 00:00 0\n"
      "50000-60000 rw-p 00000000 00:00 0\n"
      "70000-71000 rw-p 00000000 00:00 0\n");
  CHECK(overlaid(below, above) == expected);
  CHECK(overlaid(below, {}) == below);
  CHECK(overlaid({}, above) == above);
}

TEST_CASE("an address space finds by address and joins split allocations") {
  const AddressSpace space(
      parse_maps("1000-2000 rw-p 0 00:00 0\n2000-3000 rw-p 0 00:00 0\n3000-4000 r--p 0 00:00 0\n"
                 "5000-6000 rw-p 0 00:00 0\n"));
  CHECK(space.find(Address(0xfff)) == nullptr);
  REQUIRE(space.find(Address(0x2fff)) != nullptr);
  CHECK(space.find(Address(0x2fff))->range.begin == Address(0x2000));
  CHECK(space.find(Address(0x4000)) == nullptr);
  CHECK(space.writable_run(Address(0x2800)) == AddressRange{Address(0x1000), Address(0x3000)});
  CHECK(space.writable_run(Address(0x3000)).is_empty());
  CHECK(space.writable_run(Address(0x5000)) == AddressRange{Address(0x5000), Address(0x6000)});
}
