// What base/byte_reader.h reads, appended to a vector of bytes.
//
// Variable-length integers are LEB128: seven bits a byte, least significant first, the high bit
// says that more follow. Signed values are folded first (zigzag): 0, -1, 1, -2 become 0, 1, 2, 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "snapshot/section.h"

namespace heapsnap {

void append_bytes(Bytes& out, std::span<const std::byte> bytes);

// Without its length.
inline void append_text(Bytes& out, std::string_view text) {
  append_bytes(out, std::as_bytes(std::span(text.data(), text.size())));
}

// Little-endian, as every host that heapsnap runs on.
template <typename T>
void append_value(Bytes& out, T value) {
  static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
  append_bytes(out, std::as_bytes(std::span(&value, 1)));
}

// The bits that any of the values has.
template <typename T>
T union_of(std::span<const T> values) {
  T bits = 0;
  for (const T value : values) bits |= value;
  return bits;
}

// The lowest bytes of all values, then the next ones, ...: what is alike comes to lie together. In
// place of what `out` held.
void write_planes(Bytes& out, std::span<const uint32_t> values);

inline void append_varint(Bytes& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<std::byte>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<std::byte>(value));
}

constexpr uint64_t zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

}  // namespace heapsnap
