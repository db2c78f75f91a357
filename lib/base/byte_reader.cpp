#include "base/byte_reader.h"

#include "base/error.h"

namespace heapsnap {

uint64_t ByteReader::read_varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const auto byte = read<uint8_t>();
    const uint64_t bits = byte & 0x7fU;
    if (shift == 63 && bits > 1) fail("a varint overflows 64 bits");
    value |= bits << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  fail("a varint is longer than ten bytes");
}

int64_t ByteReader::read_signed_varint() {
  const uint64_t zigzag = read_varint();
  return static_cast<int64_t>(zigzag >> 1) ^ -static_cast<int64_t>(zigzag & 1);
}

std::span<const std::byte> ByteReader::take(uint64_t count) {
  if (count > remaining()) {
    fail("needs " + std::to_string(count) + " bytes where " + std::to_string(remaining()) +
         " are left");
  }
  const auto view = bytes_.subspan(offset_, static_cast<size_t>(count));
  offset_ += static_cast<size_t>(count);
  return view;
}

std::string_view ByteReader::take_text(uint64_t count) {
  const auto view = take(count);
  return {reinterpret_cast<const char*>(view.data()), view.size()};
}

void ByteReader::seek(uint64_t offset) {
  if (offset > bytes_.size()) fail("offset " + std::to_string(offset) + " lies past the end");
  offset_ = static_cast<size_t>(offset);
}

void ByteReader::fail(const std::string& why) const {
  throw Error(ErrorKind::kBadInput, source_ + " is damaged",
              why + " (at offset " + std::to_string(offset_) + ")");
}

}  // namespace heapsnap
