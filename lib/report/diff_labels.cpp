#include "report/diff_labels.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "report/fitted_name.h"
#include "report/reference_labels.h"
#include "report/rss_row_text.h"
#include "report/terminal_text.h"
#include "tracking/function_name.h"

namespace heapsnap {

namespace {

std::string account_label(const std::string& name) {
  for (int row = 0; row < kRssRowCount; ++row) {
    const auto each = static_cast<RssRow>(row);
    if (name == to_string(each)) return rss_row_text(each);
  }
  return printable(name);
}

constexpr size_t kFunctionWidth = 40;
constexpr std::string_view kCallOf = " ← ";

// What is below the function of a row of stacks, in short: "← parse ← main".
std::string callers_of(const std::string& name) {
  constexpr size_t kMostCallers = 4;
  std::string text;
  size_t begin = name.find(kCallOf);
  for (size_t count = 0; begin < name.size(); ++count) {
    if (count == kMostCallers) return text + " ← …";
    begin += kCallOf.size();
    const size_t end = std::min(name.find(kCallOf, begin), name.size());
    const std::string function = name.substr(begin, end - begin);
    const std::string plain = plain_name(function);
    text += text.empty() ? "← " : " ← ";
    text += clipped(printable(plain.empty() ? function : plain), kFunctionWidth);
    begin = end;
  }
  return text.empty() ? "called by nothing that has a name" : text;
}

// "connect_peers(int) ← worker(int) ← …": the outermost callers go first.
std::string cut_callers(const std::string& label, size_t width) {
  constexpr std::string_view kMore = " ← …";
  if (display_width(label) <= width) return label;
  std::string inner = label;
  for (size_t end = 0; (end = inner.rfind(kCallOf)) != std::string::npos;) {
    inner.resize(end);
    if (display_width(inner) + display_width(kMore) <= width) return inner.append(kMore);
  }
  return cut_name(label, width);
}

}  // namespace

const char* title_of(DiffBy by) {
  switch (by) {
    case DiffBy::kOwner: return "Growth by owner, with what is reachable only through it";
    case DiffBy::kType: return "Growth by type of the blocks";
    case DiffBy::kStack: return "Growth by function that allocates, and its callers";
    case DiffBy::kLeak: return "Growth of leaked memory";
    case DiffBy::kSize: return "Growth by size of the blocks (malloc's header included)";
    case DiffBy::kArena: return "Growth by arena: what malloc has from the system";
    case DiffBy::kAccount: return "Growth of resident memory, by what it is used for";
    case DiffBy::kClass: return "Growth by class of a language runtime's objects";
    case DiffBy::kContext: return "Growth by name of PostgreSQL's memory contexts";
  }
  return "";
}

const char* plural_of(DiffBy by) {
  switch (by) {
    case DiffBy::kOwner: return "owners";
    case DiffBy::kType: return "types";
    case DiffBy::kStack: return "call stacks";
    case DiffBy::kLeak: return "leaks";
    case DiffBy::kSize: return "sizes";
    case DiffBy::kArena: return "arenas";
    case DiffBy::kAccount: return "resident memory";
    case DiffBy::kClass: return "classes";
    case DiffBy::kContext: return "memory contexts";
  }
  return "";
}

const char* counted_in(DiffBy by) {
  if (by == DiffBy::kClass) return "objects";
  return by == DiffBy::kContext ? "contexts" : "blocks";
}

std::string row_label(DiffBy by, const DiffRow& row, size_t depth) {
  std::string label;
  if (by == DiffBy::kStack && depth > 0) {
    label = callers_of(row.name);
  } else {
    label = by == DiffBy::kAccount ? account_label(row.name) : printable(row.name);
  }
  // The sizes first, as owners have them, and as what is too long is cut at its end.
  const SaidSizes& sizes = row.sizes;
  if (sizes.most != 0) label = block_sizes_label(sizes.least, sizes.most) + ", " + label;
  if (by == DiffBy::kSize) label = "blocks of " + label;
  return std::string(2 * depth, ' ') + label;
}

std::vector<std::string> fitted_labels(DiffBy by, const std::vector<std::string>& labels,
                                       size_t width) {
  std::vector<std::string> functions;
  if (by == DiffBy::kStack) {
    std::copy_if(labels.begin(), labels.end(), std::back_inserter(functions),
                 [](const std::string& label) { return !label.starts_with(' '); });
    functions = fitted_names(functions, width);
  }
  std::vector<std::string> result;
  size_t next = 0;
  for (const std::string& label : labels) {
    if (by == DiffBy::kStack && !label.starts_with(' ')) {
      result.push_back(functions[next++]);
    } else {
      result.push_back(by == DiffBy::kLeak ? cut_callers(label, width) : cut_name(label, width));
    }
  }
  return result;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace heapsnap
