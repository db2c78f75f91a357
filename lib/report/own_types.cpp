#include "report/own_types.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "elf/program_words.h"

namespace heapsnap {

namespace {

constexpr std::string_view kLeftOut = "…";
constexpr int kDeepest = 32;

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
  if (depth > kDeepest || !has_program_word(argument)) return add(parts, std::string(kLeftOut));
  const size_t open = argument.find('<');
  if (open == std::string_view::npos || has_program_word(argument.substr(0, open))) {
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
      const bool is_kept = depth < kDeepest && has_program_word(each);
      add(parts, is_kept ? nested(each, depth + 1) : std::string(kLeftOut));
    }
    result += joined_parts(parts);
    i = *end;
  }
  return result;
}

bool is_of_word(char letter) {
  return letter == '_' || (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
         (letter >= 'A' && letter <= 'Z') || static_cast<unsigned char>(letter) >= 0x80;
}

// "_Hash_node<Session>" of "std::__detail::_Hash_node<shop::Session>"
std::string without_namespaces(std::string_view name) {
  std::string result;
  size_t word = 0;  // begin of the last one in `result`
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with("::") && word < result.size()) {
      result.resize(word);
      ++i;
      continue;
    }
    result += name[i];
    if (!is_of_word(name[i])) word = result.size();
  }
  return result;
}

// Without the arguments that are left out.
std::string of_own_types(const std::vector<std::string>& parts) {
  std::vector<std::string> own;
  std::copy_if(parts.begin(), parts.end(), std::back_inserter(own),
               [](const std::string& part) { return part != kLeftOut; });
  return joined_parts(own);
}

}  // namespace

std::string with_own_types(std::string_view name, OwnTypesForm form) {
  const size_t open = name.find('<');
  if (open == std::string_view::npos) return {};
  const auto end = end_of_arguments(name, open);
  if (!end || !has_program_word(name.substr(open, *end - open))) return {};
  if (form == OwnTypesForm::kNested) return nested(name, 0);
  std::vector<std::string> parts;
  for (const auto each : arguments_of(name.substr(open + 1, *end - open - 2))) {
    add_flat(parts, each, 0);
  }
  const std::string_view front = name.substr(0, open);
  const std::string rest = nested(name.substr(*end), 0);
  if (form == OwnTypesForm::kFlat) {
    while (parts.size() > 1 && parts.back() == kLeftOut) parts.pop_back();
    return std::string(front) + joined_parts(parts) + rest;
  }
  const std::string own = of_own_types(parts);
  if (form == OwnTypesForm::kAlone) return std::string(front) + own + rest;
  const size_t word = front.rfind(' ') + 1;
  const bool is_own = is_program_word(front.substr(word));
  if (form == OwnTypesForm::kShort) {
    return (is_own ? std::string(front) : without_namespaces(front)) +
           without_namespaces(own + rest);
  }
  if (is_own) return {};
  return std::string(front.substr(0, word)) + std::string(kLeftOut) +
         without_namespaces(own + rest);
}

}  // namespace heapsnap
