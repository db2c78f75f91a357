#include "analysis/leak_suppressions.h"

#include <algorithm>

#include "base/error.h"

namespace heapsnap {

namespace {

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) - begin + 1);
}

// Pieces between asterisks are looked for one after another: the first place of each is the best.
bool matches_pattern(std::string_view pattern, std::string_view name) {
  bool is_anchored = false;
  if (pattern.starts_with('^')) {
    is_anchored = true;
    pattern.remove_prefix(1);
  }
  const bool ends = pattern.ends_with('$');
  if (ends) pattern.remove_suffix(1);
  for (bool is_last = false; !is_last;) {
    const size_t star = pattern.find('*');
    is_last = star == std::string_view::npos;
    const std::string_view piece = pattern.substr(0, star);
    if (is_last && ends) {
      if (is_anchored) return name == piece;
      return name.ends_with(piece);
    }
    if (is_anchored) {
      if (!name.starts_with(piece)) return false;
      name.remove_prefix(piece.size());
    } else {
      const size_t at = name.find(piece);
      if (at == std::string_view::npos) return false;
      name.remove_prefix(at + piece.size());
    }
    is_anchored = false;
    if (!is_last) pattern.remove_prefix(star + 1);
  }
  return true;
}

}  // namespace

LeakSuppressions LeakSuppressions::parse(std::string_view text, const std::string& name) {
  LeakSuppressions result;
  size_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    ++line_number;
    if (line.empty() || line.front() == '#') continue;
    constexpr std::string_view kKind = "leak:";
    if (!line.starts_with(kKind) || line.size() == kKind.size()) {
      throw Error(ErrorKind::kBadInput, name + ", line " + std::to_string(line_number),
                  "it is no suppression of a leak",
                  "write lines as LeakSanitizer reads them: leak:PATTERN");
    }
    result.patterns_.emplace_back(line.substr(kKind.size()));
  }
  return result;
}

bool LeakSuppressions::matches(std::string_view name) const {
  return !name.empty() && std::any_of(patterns_.begin(), patterns_.end(), [&](const auto& pattern) {
    return matches_pattern(pattern, name);
  });
}

std::vector<bool> suppressed_stacks(const LeakSuppressions& suppressions,
                                    const RecordedStacks& recorded, const TrackerRecord& tracker) {
  const std::vector<CallNode>& nodes = recorded.stacks.nodes;
  std::vector<bool> modules;
  for (const TrackedModule& module : tracker.modules) {
    modules.push_back(suppressions.matches(module.path));
  }
  // A parent has the lower id: what matches further out is known first.
  std::vector<bool> matching(nodes.size());
  for (size_t id = 0; id < nodes.size(); ++id) {
    const CallNode& node = nodes[id];
    bool is_match = node.parent < id && matching[node.parent];
    if (node.module >= 0) is_match = is_match || modules[static_cast<size_t>(node.module)];
    for (const SourceFrame& frame : recorded.symbols.at(node.module, node.return_address)) {
      is_match = is_match || suppressions.matches(recorded.symbols.text(frame.function)) ||
                 suppressions.matches(recorded.symbols.text(frame.file));
    }
    matching[id] = is_match;
  }
  std::vector<bool> result;
  for (const AllocationSite& site : recorded.stacks.sites) {
    result.push_back(site.node < matching.size() && matching[site.node]);
  }
  return result;
}

}  // namespace heapsnap
