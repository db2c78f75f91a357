#include <algorithm>
#include <string_view>

#include "elf/debug_types.h"

namespace heapsnap {

namespace {

constexpr size_t kLongestShownName = 1000;

// Arguments of templates that are there unless somebody chose others.
constexpr std::string_view kUsualArguments[] = {"std::allocator<", "std::char_traits<",
                                                "std::less<",      "std::hash<",
                                                "std::equal_to<",  "std::default_delete<"};

// Behind the argument that begins at `begin`: at the "," or ">" that ends it.
size_t end_of_argument(std::string_view name, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < name.size(); ++i) {
    const char letter = name[i];
    if (letter == '<' || letter == '(') ++depth;
    if (depth == 0 && (letter == ',' || letter == '>')) return i;
    if (letter == '>' || letter == ')') --depth;
  }
  return name.size();
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
}

}  // namespace

std::string short_type_name(std::string name) {
  if (name.size() > kLongestShownName * 64) name.resize(kLongestShownName * 64);
  std::string result;
  result.reserve(name.size());
  for (size_t i = 0; i < name.size();) {
    const std::string_view rest = std::string_view(name).substr(i);
    if (rest.starts_with(", ")) {
      const bool is_usual =
          std::any_of(std::begin(kUsualArguments), std::end(kUsualArguments),
                      [rest](std::string_view usual) { return rest.substr(2).starts_with(usual); });
      if (is_usual) {
        i = end_of_argument(name, i + 2);
        continue;
      }
    }
    if (name[i] != ' ' || result.empty() || result.back() != '>' || !rest.starts_with(" >")) {
      result += name[i];
    }
    ++i;
  }
  // As gcc writes what clang writes "Plain *const", "Plain &".
  replace_all(result, " *", "*");
  replace_all(result, " &", "&");
  replace_all(result, "*const", "* const");
  replace_all(result, "> >", ">>");
  replace_all(result, "std::__cxx11::", "std::");
  replace_all(result, "std::basic_string<char>", "std::string");
  if (result.size() > kLongestShownName) {
    result.resize(kLongestShownName);
    result += "...";
  }
  return result;
}

}  // namespace heapsnap
