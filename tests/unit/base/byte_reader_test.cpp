#include "base/byte_reader.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"

using namespace heapsnap;

namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

ByteReader reader_of(const std::vector<uint8_t>& bytes) {
  return {std::as_bytes(std::span(bytes)), "a file"};
}

uint64_t varint_of(const std::vector<uint8_t>& bytes) {
  return reader_of(bytes).read_varint();
}

}  // namespace

TEST_CASE("a range fits only where its end does not wrap around") {
  CHECK(fits_within(0, 10, 10));
  CHECK(fits_within(10, 0, 10));
  CHECK_FALSE(fits_within(11, 0, 10));
  CHECK_FALSE(fits_within(1, 10, 10));
  CHECK_FALSE(fits_within(2, kMost, 10));
  CHECK_FALSE(fits_within(kMost, 2, 10));
  CHECK(fits_within(0, kMost, kMost));
}

TEST_CASE("values are read little-endian, one after the other") {
  const std::vector<uint8_t> bytes{1, 2, 3, 4, 5, 6, 7};
  ByteReader reader = reader_of(bytes);
  CHECK(reader.read<uint32_t>() == 0x04030201);
  CHECK(reader.offset() == 4);
  CHECK(reader.remaining() == 3);
  CHECK(reader.read<uint16_t>() == 0x0605);
  CHECK_FALSE(reader.at_end());
  CHECK_THROWS_AS(reader.read<uint16_t>(), Error);
  CHECK(reader.offset() == 6);  // nothing was taken
  CHECK(reader.read<uint8_t>() == 7);
  CHECK(reader.at_end());
}

TEST_CASE("a varint has ten bytes at most, and 64 bits") {
  CHECK(varint_of({0}) == 0);
  CHECK(varint_of({0x7f}) == 127);
  CHECK(varint_of({0x80, 0x01}) == 128);
  CHECK(varint_of({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}) == kMost);
  CHECK_THROWS_AS(varint_of({}), Error);
  CHECK_THROWS_AS(varint_of({0x80}), Error);
  CHECK_THROWS_AS(varint_of({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}), Error);
  CHECK_THROWS_AS(varint_of(std::vector<uint8_t>(11, 0x80)), Error);
}

TEST_CASE("a signed varint alternates between the signs") {
  for (const auto& [byte, value] : {std::pair{0, 0}, {1, -1}, {2, 1}, {3, -2}, {0x7f, -64}}) {
    const std::vector<uint8_t> bytes{static_cast<uint8_t>(byte)};
    CHECK(reader_of(bytes).read_signed_varint() == value);
  }
  const std::vector<uint8_t> all{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
  CHECK(reader_of(all).read_signed_varint() == std::numeric_limits<int64_t>::min());
}

TEST_CASE("what is taken is a view, and never more than there is") {
  const std::vector<uint8_t> bytes{'h', 'e', 0, 'p', '!'};
  ByteReader reader = reader_of(bytes);
  CHECK(reader.take_text(4) == std::string_view("he\0p", 4));
  CHECK_THROWS_AS(reader.take(2), Error);
  CHECK_THROWS_AS(reader.take(kMost), Error);
  CHECK_THROWS_AS(reader.skip(kMost - 3), Error);
  CHECK(reader.take(0).empty());
  reader.seek(1);
  CHECK(reader.take(1).data() == std::as_bytes(std::span(bytes)).data() + 1);
  reader.seek(5);
  CHECK(reader.at_end());
  CHECK_THROWS_AS(reader.seek(6), Error);
  CHECK_THROWS_AS(reader.seek(kMost), Error);
}

TEST_CASE("an error names the source and the place") {
  const std::vector<uint8_t> bytes{1, 2, 3};
  ByteReader reader = reader_of(bytes);
  reader.skip(2);
  try {
    reader.read<uint32_t>();
    FAIL("read past the end");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kBadInput);
    const std::string text = error.what();
    CHECK(text.find("a file") != std::string::npos);
    CHECK(text.find('2') != std::string::npos);
  }
}
