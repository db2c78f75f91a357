// Numbers and text straight into a buffer, for lines that are written by the million. Each gives
// the end of what it wrote; the caller has room for it.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace heapsnap {

inline constexpr int kMaxDecimalDigits = 20;
inline constexpr int kMaxHexDigits = 16;

inline char* put_text(char* to, std::string_view text) {
  std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

inline char* put_decimal(char* to, uint64_t value) {
  return std::to_chars(to, to + kMaxDecimalDigits, value).ptr;
}

// As "%<width>lu" does; `width` is at most kMaxDecimalDigits.
inline char* put_decimal_padded(char* to, uint64_t value, int width) {
  char digits[kMaxDecimalDigits];
  const char* end = put_decimal(digits, value);
  const int length = static_cast<int>(end - digits);
  for (int i = length; i < width; ++i) *to++ = ' ';
  return put_text(to, {digits, static_cast<size_t>(length)});
}

// Without "0x".
inline char* put_hex(char* to, uint64_t value) {
  return std::to_chars(to, to + kMaxHexDigits, value, 16).ptr;
}

}  // namespace heapsnap
