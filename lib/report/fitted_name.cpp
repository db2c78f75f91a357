#include "report/fitted_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "report/terminal_text.h"
#include "tracking/function_name.h"

namespace heapsnap {

namespace {

constexpr std::string_view kCut = "…";

// What stands for each kind of brackets.
struct NameForm {
  bool has_parameters = true;
  std::string_view templates = "<…>";
  std::string_view parameters = "(…)";
};

// Text in brackets, with `mark` for the template arguments in it.
std::string without_template_arguments(std::string_view text, std::string_view mark) {
  std::string result;
  size_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    const bool is_arrow = letter == '>' && i > 0 && text[i - 1] == '-';
    if (letter == '<' && depth++ == 0) result += mark;
    if (depth == 0) result += letter;
    if (letter == '>' && !is_arrow && depth > 0) --depth;
  }
  return result;
}

// An empty pair is as short as what stands for a full one.
std::string_view of_brackets(std::string_view text, std::string_view form) {
  return text.size() > 2 || form.empty() ? form : text;
}

std::string shown(const NameParts& parts, const NameForm& form) {
  std::string result;
  for (const NamePiece& piece : parts.path) {
    switch (piece.kind) {
      case NamePiece::Kind::kText:
        // "<A<int> as B<int>>::f"
        if (piece.text.starts_with('<')) {
          result += '<' + without_template_arguments(piece.text.substr(1), form.templates);
        } else {
          result += piece.text;
        }
        break;
      case NamePiece::Kind::kTemplateArguments:
        result += of_brackets(piece.text, form.templates);
        break;
      case NamePiece::Kind::kParameters:
        if (form.has_parameters) {
          result += without_template_arguments(piece.text, form.templates);
        } else {
          result += of_brackets(piece.text, form.parameters);
        }
        break;
    }
  }
  return result;
}

// What "::" separates, outside of brackets.
std::vector<std::string_view> components(std::string_view path) {
  std::vector<std::string_view> result;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < path.size(); ++i) {
    if (std::string_view("<({[").find(path[i]) != std::string_view::npos) ++depth;
    if (std::string_view(">)}]").find(path[i]) != std::string_view::npos) --depth;
    if (depth > 0 || !path.substr(i).starts_with("::")) continue;
    result.push_back(path.substr(begin, i - begin));
    begin = i + 2;
    ++i;
  }
  result.push_back(path.substr(begin));
  return result;
}

// Of the first part of a Rust path: "<alloc::vec::Vec as core::ops::Drop>" is "<Vec as Drop>".
std::string without_modules(std::string_view part) {
  constexpr std::string_view kAs = " as ";
  if (!part.starts_with('<') || !part.ends_with('>') || part.size() < 2) return std::string(part);
  const std::string_view inner = part.substr(1, part.size() - 2);
  const size_t as = inner.find(kAs);
  std::string result = "<" + std::string(components(inner.substr(0, as)).back());
  if (as != std::string_view::npos) {
    result += std::string(kAs) + std::string(components(inner.substr(as + kAs.size())).back());
  }
  return result + ">";
}

// Shorter and shorter forms without parts from the middle of the namespaces.
std::vector<std::string> shorter_paths(const std::string& path) {
  auto parts = components(path);
  constexpr size_t kMostKept = 6;
  std::vector<std::string> result;
  const std::string front = without_modules(parts.front());
  if (front != parts.front()) {
    result.push_back(front + path.substr(parts.front().size()));
    parts.front() = front;
  }
  for (size_t kept = std::min(parts.size(), kMostKept); kept-- > 1;) {
    // The first, and the last `kept`.
    if (kept + 1 >= parts.size()) continue;
    std::string shorter = std::string(parts.front()) + "::" + std::string(kCut);
    for (size_t i = parts.size() - kept; i < parts.size(); ++i) {
      shorter += "::" + std::string(parts[i]);
    }
    result.push_back(std::move(shorter));
  }
  if (parts.size() > 1) result.emplace_back(parts.back());
  return result;
}

bool is_word(char letter) {
  return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
         (letter >= 'A' && letter <= 'Z') || letter == '_' ||
         static_cast<unsigned char>(letter) >= 0x80;
}

// How many letters all texts start with, up to the last whole word.
size_t common_front(const std::vector<std::string_view>& texts) {
  std::string_view front = texts.front();
  for (const std::string_view text : texts) {
    const auto differs = std::mismatch(front.begin(), front.end(), text.begin(), text.end()).first;
    front = front.substr(0, static_cast<size_t>(differs - front.begin()));
  }
  size_t size = front.size();
  while (size > 0 && is_word(front[size - 1])) --size;
  return size;
}

// The same from their ends.
size_t common_back(const std::vector<std::string_view>& texts) {
  std::string_view back = texts.front();
  for (const std::string_view text : texts) {
    const auto differs =
        std::mismatch(back.rbegin(), back.rend(), text.rbegin(), text.rend()).first;
    back = back.substr(back.size() - static_cast<size_t>(differs - back.rbegin()));
  }
  size_t size = back.size();
  while (size > 0 && is_word(back[back.size() - size])) --size;
  return size;
}

// The start of each name, then the part in which it differs from the others: "f…long".
std::vector<std::string> differing_parts(const std::vector<std::string_view>& texts, size_t width) {
  const size_t front = common_front(texts);
  const size_t back = common_back(texts);
  std::vector<std::string> result;
  for (const std::string_view text : texts) {
    const size_t end = std::max(front, text.size() - std::min(back, text.size()));
    const std::string_view part = text.substr(front, end - front);
    const std::string name =
        fitted_name(text, width - std::min(width, std::max(width / 2, 1 + display_width(part))));
    result.push_back(name + std::string(kCut) +
                     clipped(part, width - std::min(width, display_width(name) + 1)));
  }
  return result;
}

// "libruby-3.1" of "libruby-3.1.so.3.1".
std::string short_module(std::string_view module) {
  return std::string(module.substr(0, module.find(".so")));
}

bool are_distinct(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  return std::adjacent_find(texts.begin(), texts.end()) == texts.end();
}

}  // namespace

std::string fitted_name(std::string_view function, size_t width) {
  if (display_width(function) <= width) return std::string(function);
  if (is_name_of_start(function)) {
    // The address alone tells functions of a module apart.
    const std::string_view begin = function.substr(function.rfind('+'));
    const std::string short_name = short_module(function.substr(0, function.rfind('+')));
    if (short_name.size() + begin.size() <= width) return short_name + std::string(begin);
    const size_t room = width - std::min(width, begin.size());
    if (room == 0) return clipped(begin, width);
    // A letter or two would be the name of another module.
    constexpr size_t kLeastModule = 3;
    const std::string_view module = function.substr(0, function.size() - begin.size());
    return (room < kLeastModule ? std::string(kCut) : clipped(module, room)) + std::string(begin);
  }
  const NameParts parts = parts_of_name(function);
  for (const NameForm& form : {NameForm{}, NameForm{.has_parameters = false},
                               NameForm{.has_parameters = false, .templates = ""}}) {
    std::string text = shown(parts, form);
    if (display_width(text) <= width) return text;
  }
  for (const std::string_view parameters : {"(…)", ""}) {
    std::string path =
        shown(parts, {.has_parameters = false, .templates = "", .parameters = parameters});
    if (display_width(path) <= width) return path;
    for (std::string& shorter : shorter_paths(path)) {
      if (display_width(shorter) <= width) return std::move(shorter);
    }
  }
  const std::string bare =
      shown(parts, {.has_parameters = false, .templates = "", .parameters = ""});
  return clipped(components(bare).back(), width);
}

std::vector<std::string> fitted_names(const std::vector<std::string>& functions, size_t width) {
  std::vector<std::string> result;
  std::map<std::string, std::vector<size_t>> alike;  // by what is shown
  for (size_t i = 0; i < functions.size(); ++i) {
    result.push_back(fitted_name(functions[i], width));
    alike[result.back()].push_back(i);
  }
  for (const auto& [text, indices] : alike) {
    std::vector<std::string_view> names;  // each once
    std::unordered_map<std::string_view, size_t> number;
    for (const size_t i : indices) {
      if (number.try_emplace(functions[i], names.size()).second) names.push_back(functions[i]);
    }
    if (names.size() < 2) continue;
    std::vector<std::string> told = differing_parts(names, width);
    if (!are_distinct(told)) {
      for (size_t i = 0; i < told.size(); ++i) {
        const std::string ordinal = fmt::format(" #{}", i + 1);
        told[i] = fitted_name(names[i], width - std::min(width, ordinal.size())) + ordinal;
      }
    }
    for (const size_t i : indices) result[i] = told[number.at(functions[i])];
  }
  return result;
}

}  // namespace heapsnap
