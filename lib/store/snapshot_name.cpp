#include "store/snapshot_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

namespace heapsnap {

namespace {

constexpr size_t kLongestTargetName = 64;
constexpr std::string_view kPattern =
    "dddddddd"
    "T"
    "dddddd"
    "Z-";
constexpr std::string_view kSuffix = ".hsnap";
constexpr int64_t kClockToleranceSeconds = 2;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
         c == '-';
}

unsigned number_at(std::string_view text, size_t offset, size_t digits) {
  unsigned number = 0;
  for (size_t i = offset; i < offset + digits; ++i) {
    number = number * 10 + static_cast<unsigned>(text[i] - '0');
  }
  return number;
}

bool fits_pattern(std::string_view text) {
  if (text.size() <= kPattern.size() + kSuffix.size() || !text.ends_with(kSuffix)) return false;
  for (size_t i = 0; i < kPattern.size(); ++i) {
    if (kPattern[i] == 'd' ? !is_digit(text[i]) : text[i] != kPattern[i]) return false;
  }
  return true;
}

}  // namespace

bool is_in_future(int64_t time_s, int64_t now_s) {
  return time_s > now_s + kClockToleranceSeconds;
}

std::string to_text(const SnapshotName& name) {
  const std::chrono::sys_seconds time{std::chrono::seconds(name.time_s)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z-{}{}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     name.pid, kSuffix);
}

std::optional<SnapshotName> parse_snapshot_name(std::string_view text) {
  if (!fits_pattern(text)) return std::nullopt;
  using namespace std::chrono;
  const year_month_day date{year(static_cast<int>(number_at(text, 0, 4))),
                            month(number_at(text, 4, 2)), day(number_at(text, 6, 2))};
  if (!date.ok()) return std::nullopt;
  const sys_seconds time = sys_days(date) + hours(number_at(text, 9, 2)) +
                           minutes(number_at(text, 11, 2)) + seconds(number_at(text, 13, 2));
  SnapshotName name;
  name.time_s = time.time_since_epoch().count();
  const char* const begin = text.data() + kPattern.size();
  const char* const end = text.data() + text.size() - kSuffix.size();
  const auto [rest, error] = std::from_chars(begin, end, name.pid);
  if (error != std::errc() || rest != end || name.pid <= 0 || name.time_s < 0) return std::nullopt;
  // The hour 25 and leading zeros are other spellings of what it gives.
  return to_text(name) == text ? std::optional(name) : std::nullopt;
}

bool is_target_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestTargetName && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

std::string host_folder(std::string_view hostname) {
  std::string folder(hostname.substr(0, kLongestTargetName));
  std::replace_if(
      folder.begin(), folder.end(), [](char c) { return !is_name_character(c); }, '_');
  if (folder.empty()) return "unknown";
  if (folder.front() == '.') folder.front() = '_';
  return folder;
}

}  // namespace heapsnap
