#include "target/mapping.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"

namespace heapsnap {

namespace {

// Takes lines and fields off the front of a text; every method says whether it could.
class LineCursor {
 public:
  explicit LineCursor(std::string_view line) : rest_(line) {}

  template <typename T>
  bool number(T& value, int base) {
    const auto [end, error] =
        std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
    if (error != std::errc() || end == rest_.data()) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return true;
  }
  bool literal(char expected) {
    if (rest_.empty() || rest_.front() != expected) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool flag(char set, char clear, bool& value) {
    if (rest_.empty() || (rest_.front() != set && rest_.front() != clear)) return false;
    value = rest_.front() == set;
    rest_.remove_prefix(1);
    return true;
  }
  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// The kernel writes newline as \012 and, since it must be unambiguous, backslash as \134.
std::string undo_octal_escapes(std::string_view text) {
  const auto is_octal = [](char digit) { return digit >= '0' && digit <= '7'; };
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::optional<Mapping> parse_mapping(std::string_view line) {
  Mapping mapping;
  LineCursor cursor(line);
  uint64_t begin = 0;
  uint64_t end = 0;
  bool is_private = false;
  const bool ok = cursor.number(begin, 16) && cursor.literal('-') && cursor.number(end, 16) &&
                  cursor.literal(' ') && cursor.flag('r', '-', mapping.readable) &&
                  cursor.flag('w', '-', mapping.writable) &&
                  cursor.flag('x', '-', mapping.executable) && cursor.flag('p', 's', is_private) &&
                  cursor.literal(' ') && cursor.number(mapping.file_offset, 16) &&
                  cursor.literal(' ') && cursor.number(mapping.device_major, 16) &&
                  cursor.literal(':') && cursor.number(mapping.device_minor, 16) &&
                  cursor.literal(' ') && cursor.number(mapping.inode, 10);
  if (!ok || begin >= end) return std::nullopt;
  mapping.range = {Address(begin), Address(end)};
  mapping.shared = !is_private;
  cursor.skip_spaces();
  std::string_view path = cursor.rest();
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) {
    mapping.deleted = true;
    path.remove_suffix(kDeleted.size());
  }
  mapping.path = undo_octal_escapes(path);
  return mapping;
}

[[noreturn]] void fail(std::string_view line, const std::string& why) {
  throw Error(ErrorKind::kBadInput, "a list of mappings is damaged",
              why + ": \"" + std::string(line.substr(0, 120)) + "\"");
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Appends the mapping of one line. Gives how many mappings before it were taken back for it.
size_t append_mapping(std::vector<Mapping>& mappings, std::string_view line, TornText torn) {
  auto mapping = parse_mapping(line);
  if (!mapping) fail(line, "not a line of /proc/PID/maps");
  size_t taken_back = 0;
  while (!mappings.empty() && mapping->range.begin < mappings.back().range.end) {
    if (torn == TornText::kRefuse) fail(line, "overlaps the mapping before it");
    AddressRange& before = mappings.back().range;
    before.end = mapping->range.begin;
    if (!before.is_empty()) break;
    mappings.pop_back();
    ++taken_back;
  }
  mappings.push_back(*std::move(mapping));
  return taken_back;
}

// "Rss:                1234 kB" -> the member that it fills, or nullptr.
uint64_t MappingUsage::*usage_member(std::string_view key) {
  if (key == "Rss") return &MappingUsage::rss;
  if (key == "Pss") return &MappingUsage::pss;
  if (key == "Anonymous") return &MappingUsage::anonymous;
  if (key == "Swap") return &MappingUsage::swap;
  if (key == "AnonHugePages") return &MappingUsage::anon_huge;
  if (key == "Shared_Hugetlb" || key == "Private_Hugetlb") return &MappingUsage::hugetlb;
  return nullptr;
}

// "VmFlags: rd wr mr mw me dc ac sd"
MappingFlags parse_flags(std::string_view words) {
  MappingFlags flags;
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    if (word == "dc") flags.left_out = true;
    if (word == "wf") flags.wiped = true;
    if (word == "ht") flags.hugetlb = true;
    if (word == "um" || word == "uw" || word == "ui") flags.on_demand = true;
  }
  return flags;
}

// A line of smaps that describes pages starts with a capital letter; one that opens a mapping with
// a lower-case hexadecimal digit.
bool is_usage_line(std::string_view line) {
  return !line.empty() && line.front() >= 'A' && line.front() <= 'Z';
}

}  // namespace

std::vector<Mapping> parse_maps(std::string_view text, TornText torn) {
  std::vector<Mapping> mappings;
  while (!text.empty()) append_mapping(mappings, take_line(text), torn);
  return mappings;
}

MappingsWithUsage parse_smaps(std::string_view text, TornText torn) {
  MappingsWithUsage parsed;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (!is_usage_line(line)) {
      const size_t taken_back = append_mapping(parsed.mappings, line, torn);
      parsed.usage.resize(parsed.usage.size() - taken_back);
      parsed.usage.emplace_back();
      parsed.flags.resize(parsed.usage.size() - 1);
      parsed.flags.emplace_back();
      continue;
    }
    if (parsed.usage.empty()) fail(line, "describes no mapping");
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) fail(line, "not a line of /proc/PID/smaps");
    if (line.starts_with("VmFlags:")) {
      parsed.flags.back() = parse_flags(line.substr(colon + 1));
      continue;
    }
    const auto member = usage_member(line.substr(0, colon));
    if (member == nullptr) continue;
    LineCursor cursor(line.substr(colon + 1));
    cursor.skip_spaces();
    uint64_t kilobytes = 0;
    if (!cursor.number(kilobytes, 10) || kilobytes > UINT64_MAX / 1024) {
      fail(line, "no number of kB");
    }
    parsed.usage.back().*member += kilobytes * 1024;
  }
  return parsed;
}

std::vector<Mapping> overlaid(const std::vector<Mapping>& below,
                              const std::vector<Mapping>& above) {
  std::vector<Mapping> all;
  all.reserve(below.size() + above.size());
  Address covered{0};  // up to there all is in the result
  const auto add_up_to = [&](Mapping part, Address end) {
    const Address begin = std::max(part.range.begin, covered);
    if (begin >= end) return;
    if (!part.is_anonymous()) part.file_offset += begin - part.range.begin;
    part.range = {begin, end};
    all.push_back(std::move(part));
  };
  auto next = above.begin();
  for (const Mapping& mapping : below) {
    for (; next != above.end() && next->range.begin < mapping.range.end; ++next) {
      add_up_to(mapping, next->range.begin);
      all.push_back(*next);
      covered = next->range.end;
    }
    add_up_to(mapping, mapping.range.end);
  }
  all.insert(all.end(), next, above.end());
  return all;
}

}  // namespace heapsnap
