#include "redaction/address_rebase.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/error.h"

using namespace heapsnap;

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kUnit = 256 << 10;

AddressRange range(uint64_t begin, uint64_t end) {
  return {Address(begin), Address(end)};
}

}  // namespace

TEST_CASE("what lies together stays together, and what lay between is lost") {
  AddressRebase rebase(kPage);
  const AddressRange program = range(0x555555554000, 0x555555558000);
  const AddressRange bss = range(0x555555558000, 0x555555559000);  // right behind
  const AddressRange heap = range(0x55555a000000, 0x55555a021000);
  const AddressRange library = range(0x7ffff7c00000, 0x7ffff7e00000);
  for (const AddressRange& one : {library, heap, bss, program}) rebase.add(one);
  rebase.lay_out();
  CHECK(rebase.pieces() == 3);
  CHECK(rebase(program).end == rebase(bss).begin);
  CHECK(rebase(program.end) == rebase(bss.begin));
  CHECK(rebase(heap).size() == heap.size());
  CHECK(rebase(heap.begin + 0x1234) == rebase(heap).begin + 0x1234);
  CHECK(rebase(heap.end) == rebase(heap).end);
  CHECK(rebase(bss).end < rebase(heap).begin);
  CHECK(rebase(heap).end < rebase(library).begin);
  // No distance of the process is left, and no address.
  CHECK(rebase(library).begin - rebase(heap).begin != library.begin - heap.begin);
  CHECK(rebase(library).end < Address(0x40000000));
}

TEST_CASE("the same layout elsewhere gives the same addresses") {
  std::vector<std::vector<Address>> moved;
  for (const uint64_t slide : {uint64_t{0}, uint64_t{0x1234567} * kUnit}) {
    AddressRebase rebase(kPage);
    rebase.add(range(0x10000000 + slide, 0x10400000 + slide));
    rebase.add(range(0x7000000c0000 + 3 * slide, 0x7000000d0000 + 3 * slide));
    rebase.lay_out();
    moved.push_back(
        {rebase(Address(0x10000010 + slide)), rebase(Address(0x7000000c0010 + 3 * slide))});
  }
  CHECK(moved[0] == moved[1]);
}

TEST_CASE("heaps of runtimes keep the remainder that they are known by") {
  AddressRebase rebase(kPage);
  rebase.add(range(0x7f0000003000, 0x7f0000004000));
  rebase.add(range(0x7f1000010000, 0x7f1000040000));
  rebase.lay_out();
  CHECK(rebase(Address(0x7f0000003000)).value() % kUnit == 0x3000);
  CHECK(rebase(Address(0x7f1000010000)).value() % kUnit == 0x10000);
}

TEST_CASE("null and addresses of nobody are null") {
  AddressRebase rebase(kPage);
  rebase.add(Address());
  rebase.add(range(0x5000, 0x5000));
  rebase.add(Address(0x7fff12345678));
  rebase.lay_out();
  CHECK(rebase.pieces() == 1);
  CHECK(rebase(Address()).is_null());
  CHECK(rebase(Address(0x5000)).is_null());
  CHECK(rebase(Address(0x7fff12345678)).value() % kPage == 0x678);
  CHECK(rebase(Address(0x7fff12347000)).is_null());
}

TEST_CASE("the end of the address space is a place like any other") {
  AddressRebase rebase(kPage);
  rebase.add(Address(UINT64_MAX));
  rebase.add(range(0xffffffffff600000, 0xffffffffff601000));
  rebase.add(range(UINT64_MAX - 8 * kPage, UINT64_MAX));
  rebase.lay_out();
  CHECK(rebase.pieces() == 2);
  CHECK(rebase(Address(UINT64_MAX)).value() % kPage == kPage - 1);
  CHECK(rebase(Address(UINT64_MAX)) - rebase(Address(UINT64_MAX - 8 * kPage)) == 8 * kPage);
}

TEST_CASE("more memory than a process can have is refused") {
  AddressRebase rebase(kPage);
  rebase.add(range(0x1000, UINT64_MAX));
  CHECK_THROWS_AS(rebase.lay_out(), Error);
}

TEST_CASE("any ranges in any order: addresses ascend as they did") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    AddressRebase rebase(kPage);
    std::vector<Address> all;
    for (int i = 0; i < 2000; ++i) {
      const uint64_t begin = random() >> (17 + random() % 30);
      const uint64_t size = 1 + random() % 100'000;
      rebase.add(range(begin, begin + size));
      for (const uint64_t offset : {uint64_t{0}, random() % size, size - 1}) {
        if (begin + offset != 0) all.push_back(Address(begin + offset));
      }
    }
    rebase.lay_out();
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (size_t i = 0; i < all.size(); ++i) {
      REQUIRE(!rebase(all[i]).is_null());
      REQUIRE(rebase(all[i]).value() % kPage == all[i].value() % kPage);
      if (i != 0) REQUIRE(rebase(all[i - 1]) < rebase(all[i]));
    }
  }
}
