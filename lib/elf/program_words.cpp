#include "elf/program_words.h"

#include <algorithm>
#include <array>

namespace heapsnap {

namespace {

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

bool is_of_word(char letter) {
  return is_digit(letter) || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         letter == '_' || letter == ':' || static_cast<unsigned char>(letter) >= 0x80;
}

bool is_of_language(std::string_view word) {
  constexpr std::array<std::string_view, 24> kWords = {
      "const",    "volatile", "int",      "long", "short",  "char",  "signed",  "unsigned",
      "bool",     "float",    "double",   "void", "true",   "false", "wchar_t", "char8_t",
      "char16_t", "char32_t", "__int128", "enum", "struct", "class", "union",   "decltype"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

}  // namespace

bool is_program_word(std::string_view word) {
  // "::iterator" is of what stands before it.
  if (word.empty() || is_digit(word.front()) || word.starts_with(':')) return false;
  constexpr std::array<std::string_view, 4> kLibraries = {"std::", "__gnu_", "core::", "alloc::"};
  const bool is_of_library =
      std::any_of(kLibraries.begin(), kLibraries.end(),
                  [word](std::string_view library) { return word.starts_with(library); });
  return !is_of_library && !is_of_language(word);
}

bool has_program_word(std::string_view name) {
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && is_of_word(name[end])) ++end;
    if (is_program_word(name.substr(i, end - i))) return true;
    i = std::max(end, i + 1);
  }
  return false;
}

}  // namespace heapsnap
