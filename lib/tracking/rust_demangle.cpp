#include "tracking/rust_demangle.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <vector>

#include "tracking/rust_v0_name.h"
#include "tracking/unicode_text.h"

namespace heapsnap {

namespace {

constexpr size_t kLongestLegacy = 8 << 10;

bool is_decimal(char letter) {
  return letter >= '0' && letter <= '9';
}

// What "$LT$" and the like stand for, up to the next "$"; nothing when it is no escape of rustc.
std::optional<std::string> unescaped(std::string_view escape) {
  struct Known {
    std::string_view escape;
    std::string_view text;
  };
  constexpr Known kKnown[] = {{"SP", "@"}, {"BP", "*"}, {"RF", "&"}, {"LT", "<"},
                              {"GT", ">"}, {"LP", "("}, {"RP", ")"}, {"C", ","}};
  for (const Known& known : kKnown) {
    if (escape == known.escape) return std::string(known.text);
  }
  if (!escape.starts_with('u') || escape.size() < 2 || escape.size() > 7) return std::nullopt;
  uint32_t character = 0;
  const char* const end = escape.data() + escape.size();
  if (std::from_chars(escape.data() + 1, end, character, 16).ptr != end ||
      !is_scalar_value(character)) {
    return std::nullopt;
  }
  std::string text;
  append_utf8(character, text);
  return text;
}

void append_legacy_part(std::string_view part, std::string& to) {
  if (part.starts_with("_$")) part.remove_prefix(1);
  while (!part.empty()) {
    if (part.starts_with("..")) {
      to += "::";
      part.remove_prefix(2);
      continue;
    }
    if (part.front() == '$') {
      const size_t end = part.find('$', 1);
      if (end != std::string_view::npos) {
        if (const auto text = unescaped(part.substr(1, end - 1))) {
          to += *text;
          part.remove_prefix(end + 1);
          continue;
        }
      }
    }
    to += part.front();
    part.remove_prefix(1);
  }
}

// Behind "_ZN": names with their lengths, the last of which is a hash, then "E".
std::optional<std::string> legacy_demangled(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty() && is_decimal(text.front())) {
    size_t length = 0;
    while (!text.empty() && is_decimal(text.front()) && length <= kLongestLegacy) {
      length = length * 10 + static_cast<size_t>(text.front() - '0');
      text.remove_prefix(1);
    }
    if (length == 0 || length > text.size()) return std::nullopt;
    parts.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  if (!text.starts_with('E') || parts.size() < 2) return std::nullopt;
  // C++ names of functions go on with the types of their parameters.
  if (text.size() > 1 && text[1] != '.' && text[1] != '$' && text[1] != '@') return std::nullopt;
  const std::string_view hash = parts.back();
  constexpr size_t kHash = 17;
  if (hash.size() != kHash || hash.front() != 'h') return std::nullopt;
  if (hash.find_first_not_of("0123456789abcdef", 1) != std::string_view::npos) return std::nullopt;
  parts.pop_back();
  std::string result;
  for (const std::string_view part : parts) {
    if (!result.empty()) result += "::";
    append_legacy_part(part, result);
  }
  return result.size() <= kLongestLegacy ? std::optional(result) : std::nullopt;
}

}  // namespace

std::optional<std::string> rust_demangled(std::string_view name) {
  if (name.starts_with("_R")) return rust_v0_name(name.substr(2));
  if (name.starts_with("_ZN")) return legacy_demangled(name.substr(3));
  return std::nullopt;
}

}  // namespace heapsnap
