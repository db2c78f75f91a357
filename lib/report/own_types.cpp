#include "report/own_types.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace heapsnap {

namespace {

constexpr std::string_view kLeftOut = "…";
constexpr int kDeepest = 32;

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

// Whether a word of the name, with the namespaces before it, is of the program.
bool is_own_word(std::string_view word) {
  // "::iterator" is of what stands before it.
  if (word.empty() || is_digit(word.front()) || word.starts_with(':')) return false;
  constexpr std::array<std::string_view, 4> kLibraries = {"std::", "__gnu_", "core::", "alloc::"};
  const bool is_of_library =
      std::any_of(kLibraries.begin(), kLibraries.end(),
                  [word](std::string_view library) { return word.starts_with(library); });
  return !is_of_library && !is_of_language(word);
}

bool has_own_word(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_of_word(text[end])) ++end;
    if (is_own_word(text.substr(i, end - i))) return true;
    i = std::max(end, i + 1);
  }
  return false;
}

// How much deeper in brackets what follows text[i] is.
int step_at(std::string_view text, size_t i) {
  const bool is_arrow = text[i] == '>' && i != 0 && text[i - 1] == '-';
  if (text[i] == '<' || text[i] == '(') return 1;
  return text[i] == ')' || (text[i] == '>' && !is_arrow) ? -1 : 0;
}

// Past the bracket that closes the one at `open`; nothing where none does.
std::optional<size_t> end_of_arguments(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    depth += step_at(text, i);
    if (depth == 0) return i + 1;
  }
  return std::nullopt;
}

// Of what stands between the brackets.
std::vector<std::string_view> arguments_of(std::string_view text) {
  std::vector<std::string_view> arguments;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) {
      depth += step_at(text, i);
      if (text[i] != ',' || depth != 0) continue;
    }
    std::string_view argument = text.substr(begin, i - begin);
    while (argument.starts_with(' ')) argument.remove_prefix(1);
    while (argument.ends_with(' ')) argument.remove_suffix(1);
    arguments.push_back(argument);
    begin = i + 1;
  }
  return arguments;
}

void add(std::vector<std::string>& parts, std::string part) {
  if (part != kLeftOut || parts.empty() || parts.back() != kLeftOut) {
    parts.push_back(std::move(part));
  }
}

std::string joined_parts(const std::vector<std::string>& parts) {
  std::string text = "<";
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ", ") + parts[i];
  return text + ">";
}

std::string nested(std::string_view name, int depth);

void add_flat(std::vector<std::string>& parts, std::string_view argument, int depth) {
  if (depth > kDeepest || !has_own_word(argument)) return add(parts, std::string(kLeftOut));
  const size_t open = argument.find('<');
  if (open == std::string_view::npos || has_own_word(argument.substr(0, open))) {
    return add(parts, nested(argument, depth));
  }
  const auto end = end_of_arguments(argument, open);
  if (!end) return add(parts, std::string(kLeftOut));
  // What holds it is left out, and so is what it holds besides.
  add(parts, std::string(kLeftOut));
  for (const auto each : arguments_of(argument.substr(open + 1, *end - open - 2))) {
    add_flat(parts, each, depth + 1);
  }
}

// With the arguments that are of the program, and with what these are arguments of.
std::string nested(std::string_view name, int depth) {
  std::string result;
  for (size_t i = 0; i < name.size();) {
    const auto end = name[i] == '<' ? end_of_arguments(name, i) : std::nullopt;
    if (!end) {
      result += name[i++];
      continue;
    }
    std::vector<std::string> parts;
    for (const auto each : arguments_of(name.substr(i + 1, *end - i - 2))) {
      const bool is_kept = depth < kDeepest && has_own_word(each);
      add(parts, is_kept ? nested(each, depth + 1) : std::string(kLeftOut));
    }
    result += joined_parts(parts);
    i = *end;
  }
  return result;
}

}  // namespace

std::string with_own_types(std::string_view name, OwnTypesForm form) {
  const size_t open = name.find('<');
  if (open == std::string_view::npos) return {};
  const auto end = end_of_arguments(name, open);
  if (!end || !has_own_word(name.substr(open, *end - open))) return {};
  if (form == OwnTypesForm::kNested) return nested(name, 0);
  std::vector<std::string> parts;
  for (const auto each : arguments_of(name.substr(open + 1, *end - open - 2))) {
    add_flat(parts, each, 0);
  }
  while (parts.size() > 1 && parts.back() == kLeftOut) parts.pop_back();
  std::string rest = nested(name.substr(*end), 0);
  return std::string(name.substr(0, open)) + joined_parts(parts) + rest;
}

}  // namespace heapsnap
