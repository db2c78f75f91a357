#include "tracking/unicode_text.h"

#include <vector>

namespace heapsnap {

bool is_scalar_value(uint32_t character) {
  return character < 0xd800 || (character > 0xdfff && character <= 0x10ffff);
}

void append_utf8(uint32_t character, std::string& to) {
  if (character < 0x80) {
    to += static_cast<char>(character);
  } else if (character < 0x800) {
    to += static_cast<char>(0xc0 | character >> 6);
    to += static_cast<char>(0x80 | (character & 0x3f));
  } else if (character < 0x10000) {
    to += static_cast<char>(0xe0 | character >> 12);
    to += static_cast<char>(0x80 | (character >> 6 & 0x3f));
    to += static_cast<char>(0x80 | (character & 0x3f));
  } else {
    to += static_cast<char>(0xf0 | character >> 18);
    to += static_cast<char>(0x80 | (character >> 12 & 0x3f));
    to += static_cast<char>(0x80 | (character >> 6 & 0x3f));
    to += static_cast<char>(0x80 | (character & 0x3f));
  }
}

std::optional<std::string> decoded_punycode(std::string_view text) {
  constexpr uint32_t kBase = 36, kLeast = 1, kMost = 26, kSkew = 38, kDamp = 700;
  constexpr size_t kMostCharacters = 256;
  std::vector<uint32_t> characters;
  const size_t delimiter = text.rfind('_');
  if (delimiter != std::string_view::npos) {
    for (const char letter : text.substr(0, delimiter)) {
      characters.push_back(static_cast<unsigned char>(letter));
    }
    text.remove_prefix(delimiter + 1);
  }
  uint32_t number = 0x80, bias = 72;
  uint64_t place = 0;
  for (bool is_first = true; !text.empty(); is_first = false) {
    uint64_t delta = 0, weight = 1;
    for (uint32_t k = kBase;; k += kBase) {
      if (text.empty() || characters.size() >= kMostCharacters) return std::nullopt;
      const char letter = text.front();
      text.remove_prefix(1);
      const bool is_digit = letter >= '0' && letter <= '9';
      if (!is_digit && (letter < 'a' || letter > 'z')) return std::nullopt;
      const auto digit = static_cast<uint32_t>(is_digit ? letter - '0' + 26 : letter - 'a');
      delta += digit * weight;
      if (delta > UINT32_MAX) return std::nullopt;
      const uint32_t threshold = k <= bias ? kLeast : k >= bias + kMost ? kMost : k - bias;
      if (digit < threshold) break;
      weight *= kBase - threshold;
      if (weight > UINT32_MAX) return std::nullopt;
    }
    const uint64_t count = characters.size() + 1;
    place += delta;
    const uint64_t wraps = place / count;
    place %= count;
    if (wraps > 0x10ffff || !is_scalar_value(number + static_cast<uint32_t>(wraps))) {
      return std::nullopt;
    }
    number += static_cast<uint32_t>(wraps);
    characters.insert(characters.begin() + static_cast<ptrdiff_t>(place++), number);
    delta = is_first ? delta / kDamp : delta / 2;
    delta += delta / count;
    uint32_t k = 0;
    for (; delta > (kBase - kLeast) * kMost / 2; k += kBase) delta /= kBase - kLeast;
    bias = k + static_cast<uint32_t>((kBase - kLeast + 1) * delta / (delta + kSkew));
  }
  std::string result;
  for (const uint32_t character : characters) append_utf8(character, result);
  return result;
}

}  // namespace heapsnap
