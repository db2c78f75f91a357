#include "target/vector_words.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace heapsnap;

namespace {

void put(std::vector<std::byte>& area, size_t at, uint64_t word) {
  std::memcpy(area.data() + at, &word, sizeof word);
}

}  // namespace

TEST_CASE("the words of vector registers that may be addresses") {
  std::vector<std::byte> area(2696);
  put(area, 152, 0x7f0000000001);  // a register of the x87
  put(area, 160, 0x7f0000000002);
  put(area, 408, 0x560000000003);
  put(area, 520, 0x7f0000000004);  // the header
  put(area, 576, 0x7f0000000005);
  put(area, 2688, 0x7f0000000006);
  put(area, 168, 0xffff);              // the kernel maps nothing there
  put(area, 176, 0x800000000000);      // not of a process
  put(area, 184, 0x3ff0000000000000);  // 1.0
  CHECK(vector_words(area) ==
        std::vector<uint64_t>{0x7f0000000002, 0x560000000003, 0x7f0000000005, 0x7f0000000006});
  CHECK(vector_words(std::span(area).first(512)) ==
        std::vector<uint64_t>{0x7f0000000002, 0x560000000003});
  CHECK(vector_words(std::span(area).first(167)).empty());
  CHECK(vector_words({}).empty());
  area.resize(1 << 16);
  put(area, 8192, 0x7f0000000007);  // a tile
  CHECK(vector_words(area).size() == 4);
}
