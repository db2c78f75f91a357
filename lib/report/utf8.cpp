#include "report/utf8.h"

namespace heapsnap {

namespace {

// Bytes of the sequence that `lead` starts, and the range of its second byte, which rules out
// over-long forms, surrogates and what lies past U+10FFFF (Unicode, table 3-7).
struct Sequence {
  unsigned length = 0;
  unsigned char second_low = 0x80;
  unsigned char second_high = 0xbf;
};

Sequence sequence_of(unsigned char lead) {
  if (lead < 0x80) return {1};
  if (lead >= 0xc2 && lead <= 0xdf) return {2};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {3};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  if (lead >= 0xf1 && lead <= 0xf3) return {4};
  return {};
}

}  // namespace

std::optional<char32_t> take_utf8(std::string_view& text) {
  const auto byte_at = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const Sequence sequence = sequence_of(byte_at(0));
  char32_t character = 0;
  switch (sequence.length) {
    case 1: character = byte_at(0); break;
    case 2: character = byte_at(0) & 0x1f; break;
    case 3: character = byte_at(0) & 0x0f; break;
    case 4: character = byte_at(0) & 0x07; break;
    default: text.remove_prefix(1); return std::nullopt;
  }
  for (unsigned i = 1; i < sequence.length; ++i) {
    const unsigned char low = i == 1 ? sequence.second_low : 0x80;
    const unsigned char high = i == 1 ? sequence.second_high : 0xbf;
    if (i >= text.size() || byte_at(i) < low || byte_at(i) > high) {
      text.remove_prefix(i);
      return std::nullopt;
    }
    character = character << 6 | (byte_at(i) & 0x3f);
  }
  text.remove_prefix(sequence.length);
  return character;
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::string_view before = text;
    if (take_utf8(text)) {
      result += before.substr(0, before.size() - text.size());
    } else {
      result += "\xef\xbf\xbd";
    }
  }
  return result;
}

}  // namespace heapsnap
