#include "target/free_place.h"

#include <doctest/doctest.h>

namespace heapsnap {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kGiB = 1ULL << 30;

Mapping mapped(uint64_t begin, uint64_t end, const char* path = "") {
  Mapping mapping;
  mapping.range = {Address(begin), Address(end)};
  mapping.path = path;
  return mapping;
}

constexpr uint64_t kLibrary = 0x7f0000000000;
constexpr AddressRange kCode{Address(kLibrary), Address(kLibrary + 0x200000)};

TEST_CASE("the nearest place is right beside the mappings around it") {
  const std::vector<Mapping> mappings = {mapped(0x400000, 0x500000, "/bin/server"),
                                         mapped(kLibrary, kLibrary + 0x200000, "/lib/libc.so.6"),
                                         mapped(kLibrary + 0x201000, kLibrary + 0x300000)};
  CHECK(free_place(mappings, kCode, kPage, kGiB) == Address(kLibrary + 0x200000));
  CHECK(free_place(mappings, kCode, 2 * kPage, kGiB) == Address(kLibrary - 2 * kPage));
}

TEST_CASE("with gigabytes of mappings below the libraries the place is above them") {
  const std::vector<Mapping> mappings = {
      mapped(0x400000, 0x500000, "/bin/server"), mapped(kLibrary - 40 * kGiB, kLibrary),
      mapped(kLibrary, kLibrary + 0x200000, "/lib/libc.so.6"),
      mapped(kLibrary + 0x200000, kLibrary + 0x202000, "[vdso]"),
      mapped(kLibrary + kGiB, kLibrary + kGiB + 0x20000, "[stack]")};
  CHECK(free_place(mappings, kCode, kPage, kGiB) == Address(kLibrary + 0x202000));
}

TEST_CASE("what grows keeps its room") {
  SUBCASE("the stack") {
    const std::vector<Mapping> mappings = {
        mapped(kLibrary - 40 * kGiB, kLibrary + 0x200000, "/lib/libc.so.6"),
        mapped(kLibrary + 0x2000000, kLibrary + 0x2020000, "[stack]")};
    CHECK_FALSE(free_place(mappings, kCode, kPage, kGiB));
  }
  SUBCASE("the heap") {
    const std::vector<Mapping> near_heap = {
        mapped(kLibrary - 0x3000000, kLibrary - 0x2000000, "[heap]"),
        mapped(kLibrary, kLibrary + 40 * kGiB)};
    CHECK(free_place(near_heap, kCode, kPage, kGiB) == Address(kLibrary - 0x3000000 - kPage));
    const std::vector<Mapping> far_heap = {
        mapped(kLibrary - 0x9000000, kLibrary - 0x8000000, "[heap]"),
        mapped(kLibrary, kLibrary + 40 * kGiB)};
    CHECK(free_place(far_heap, kCode, kPage, kGiB) == Address(kLibrary - kPage));
  }
}

TEST_CASE("a place beyond the reach of a jump is none") {
  const std::vector<Mapping> mappings = {mapped(kLibrary - 2 * kGiB, kLibrary + 2 * kGiB)};
  CHECK_FALSE(free_place(mappings, kCode, kPage, 2 * kGiB));
  CHECK(free_place(mappings, kCode, kPage, 3 * kGiB) == Address(kLibrary - 2 * kGiB - kPage));
  CHECK_FALSE(free_place({}, kCode, kPage, kGiB));
}

}  // namespace
}  // namespace heapsnap
