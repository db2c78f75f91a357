// A bounds-checked cursor over bytes that somebody else wrote.
//
// Every integer is little-endian. Nothing here trusts a length: a read past the end throws
// Error{kBadInput} naming the source and the offset, so a parser is a straight line of reads.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace heapsnap {

static_assert(std::endian::native == std::endian::little, "heapsnap runs on little-endian hosts");

// begin + length without wrap-around: false when the sum overflows or passes `limit`.
constexpr bool fits_within(uint64_t begin, uint64_t length, uint64_t limit) {
  return begin <= limit && length <= limit - begin;
}

class ByteReader {
 public:
  // `source` names the bytes in messages ("core.1234, note segment").
  ByteReader(std::span<const std::byte> bytes, std::string source)
      : bytes_(bytes), source_(std::move(source)) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }
  bool at_end() const { return remaining() == 0; }

  template <typename T>
  T read() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  // Unsigned LEB128 of at most ten bytes; an over-long or overflowing one is an error.
  uint64_t read_varint();
  // Signed value in zigzag form of a varint.
  int64_t read_signed_varint();
  // The next `count` bytes, as a view of the source.
  std::span<const std::byte> take(uint64_t count);
  // The next `count` bytes as text; may hold any byte.
  std::string_view take_text(uint64_t count);
  void skip(uint64_t count) { take(count); }
  void seek(uint64_t offset);

  [[noreturn]] void fail(const std::string& why) const;

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
  std::string source_;
};

}  // namespace heapsnap
