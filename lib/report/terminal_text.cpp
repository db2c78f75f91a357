#include "report/terminal_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "report/own_types.h"
#include "report/utf8.h"

namespace heapsnap {

namespace {

struct CharacterRange {
  char32_t first;
  char32_t last;
};

template <size_t N>
bool is_in(char32_t character, const std::array<CharacterRange, N>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [character](const CharacterRange& range) {
    return range.first <= character && character <= range.last;
  });
}

// Characters that a reader cannot see, or that move others: controls, zero-width ones, marks and
// overrides of direction, line separators, fillers, the byte order mark, formats of scripts, tags,
// private use, noncharacters (of Unicode: Default_Ignorable_Code_Point and more), Braille's blank.
constexpr std::array<CharacterRange, 23> kInvisible = {
    {{0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
     {0x61c, 0x61c},     {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},
     {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},   {0x2800, 0x2800},
     {0x3164, 0x3164},   {0xe000, 0xf8ff},   {0xfdd0, 0xfdef},   {0xfe00, 0xfe0f},
     {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xffff},   {0x13430, 0x1343f},
     {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0x10ffff}}};

constexpr std::array<CharacterRange, 8> kCombining = {{{0x300, 0x36f},
                                                       {0x483, 0x489},
                                                       {0x591, 0x5bd},
                                                       {0x64b, 0x65f},
                                                       {0x1ab0, 0x1aff},
                                                       {0x1dc0, 0x1dff},
                                                       {0x20d0, 0x20ff},
                                                       {0xfe20, 0xfe2f}}};

// East Asian Width W and F (UAX #11), in coarse blocks.
constexpr std::array<CharacterRange, 10> kWide = {{{0x1100, 0x115e},
                                                   {0x2e80, 0x303e},
                                                   {0x3041, 0xa4cf},
                                                   {0xa960, 0xa97c},
                                                   {0xac00, 0xd7a3},
                                                   {0xf900, 0xfaff},
                                                   {0xfe30, 0xfe6f},
                                                   {0xff00, 0xff60},
                                                   {0x1f300, 0x1faff},
                                                   {0x20000, 0x3fffd}}};

size_t width_of(std::optional<char32_t> character) {
  if (!character) return 1;
  if (is_in(*character, kCombining)) return 0;
  return is_in(*character, kWide) ? 2 : 1;
}

// The longest front of `text` that fits into `width` columns.
std::string_view front_of(std::string_view text, size_t width) {
  std::string_view rest = text;
  size_t used = 0;
  while (!rest.empty()) {
    std::string_view next = rest;
    used += width_of(take_utf8(next));
    if (used > width) break;
    rest = next;
  }
  return text.substr(0, text.size() - rest.size());
}

// The longest back of `text` that fits. `text_width`: that of all of it.
std::string_view back_of(std::string_view text, size_t text_width, size_t width) {
  while (text_width > width) text_width -= width_of(take_utf8(text));
  return text;
}

// Whether the first word is a unit, such as "KiB" or "%".
bool is_unit(std::string_view text) {
  constexpr std::array<std::string_view, 12> kUnits = {"B",   "KiB", "MiB", "GiB", "TiB", "PiB",
                                                       "EiB", "%",   "ns",  "µs",  "ms",  "s"};
  const std::string_view word = text.substr(0, text.find(' '));
  // "2.0 MiB," and "(1.5 KiB)" too.
  const std::string_view bare = word.substr(0, word.find_last_not_of(".,;:)") + 1);
  return std::find(kUnits.begin(), kUnits.end(), bare) != kUnits.end();
}

// Takes the next word; the unit behind a number belongs to it.
std::string_view take_word(std::string_view& text) {
  size_t end = std::min(text.find(' '), text.size());
  const bool is_number = end > 0 && text[end - 1] >= '0' && text[end - 1] <= '9';
  if (is_number && end < text.size() && is_unit(text.substr(end + 1))) {
    end = std::min(text.find(' ', end + 1), text.size());
  }
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// "std::map<…>::node" of "std::map<int, std::string>::node"; nothing is left out where brackets do
// not match, as in "operator<".
std::string without_template_arguments(std::string_view name) {
  std::string result;
  size_t depth = 0;
  for (const char c : name) {
    if (c == '>' && depth == 0) return std::string(name);
    if (c == '>' && --depth == 0) result += "…";
    if (depth == 0) result += c;
    if (c == '<') ++depth;
  }
  return depth == 0 ? result : std::string(name);
}

}  // namespace

bool is_invisible(char32_t character) {
  return is_in(character, kInvisible);
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::string_view before = text;
    const std::optional<char32_t> character = take_utf8(text);
    const std::string_view bytes = before.substr(0, before.size() - text.size());
    if (!character || *character < 0x20 || (*character >= 0x7f && *character < 0xa0)) {
      for (const char byte : bytes) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    } else if (is_invisible(*character)) {
      result += fmt::format("\\u{:04x}", static_cast<uint32_t>(*character));
    } else if (*character == '\\') {
      result += "\\\\";
    } else {
      result += bytes;
    }
  }
  return result;
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) width += width_of(take_utf8(text));
  return width;
}

std::string clipped(std::string_view text, size_t width) {
  const size_t text_width = display_width(text);
  if (text_width <= width) return std::string(text);
  if (width < 3) return std::string(front_of(text, width));
  const std::string_view front = front_of(text, (width - 1) / 3);
  const std::string_view back = back_of(text, text_width, width - 1 - display_width(front));
  return std::string(front) + "…" + std::string(back);
}

std::string cut_name(std::string_view name, size_t width) {
  if (display_width(name) <= width) return std::string(name);
  for (const OwnTypesForm form : {OwnTypesForm::kNested, OwnTypesForm::kFlat, OwnTypesForm::kAlone,
                                  OwnTypesForm::kShort, OwnTypesForm::kInner}) {
    std::string own = with_own_types(name, form);
    if (!own.empty() && display_width(own) <= width) return own;
  }
  std::string cut = without_template_arguments(name);
  if (display_width(cut) <= width) return cut;
  if (width == 0) return {};
  // The offset tells what has no name from its like, the file does not.
  const size_t offset = cut.find("+0x");
  if (offset != std::string::npos && offset != 0 && cut[offset - 1] != ' ') {
    constexpr size_t kLeastFile = 4;
    constexpr std::string_view kKind = ", thread-local";
    std::string end = cut.substr(offset, cut.find_first_of(", ", offset) - offset);
    const bool is_thread_local = cut.find(kKind, offset) != std::string::npos;
    if (is_thread_local && end.size() + kKind.size() + kLeastFile < width) end += kKind;
    if (end.size() + kLeastFile < width) {
      return std::string(front_of(cut.substr(0, offset), width - 1 - end.size())) + "…" + end;
    }
  }
  return std::string(front_of(cut, width - 1)) + "…";
}

std::vector<std::string> wrapped(std::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  size_t line_width = 0;
  while (!text.empty()) {
    const std::string_view word = take_word(text);
    if (word.empty()) continue;
    const size_t word_width = display_width(word);
    std::string& line = lines.back();
    if (!line.empty() && line_width + 1 + word_width > width) {
      lines.emplace_back(word);
      line_width = word_width;
    } else {
      line_width += word_width + (line.empty() ? 0 : 1);
      if (!line.empty()) line += ' ';
      line += word;
    }
  }
  return lines;
}

std::string Ink::paint(std::string_view code, std::string_view text) const {
  return on_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace heapsnap
