#include "report/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace heapsnap {

std::string percent_text(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return percent_text(static_cast<double>(part) / static_cast<double>(whole));
}

std::string percent_text(double share) {
  if (share > 0 && share < 0.001) return "<0.1 %";
  return fmt::format("{:.1f} %", share * 100);
}

std::string address_text(Address address) {
  return fmt::format("{:#x}", address.value());
}

std::string version_text(GlibcVersion version) {
  return version.major == 0 ? "unknown" : fmt::format("{}.{}", version.major, version.minor);
}

std::string short_change_text(int64_t bytes) {
  if (bytes == 0) return "0";
  const uint64_t size = bytes < 0 ? 0 - static_cast<uint64_t>(bytes) : static_cast<uint64_t>(bytes);
  return (bytes < 0 ? "-" : "+") + short_size_text(size);
}

std::string duration_text(uint64_t nanoseconds) {
  const double value = static_cast<double>(nanoseconds);
  if (nanoseconds < 1000) return fmt::format("{} ns", nanoseconds);
  // What would round up to 1000 of a unit is one of the next.
  if (nanoseconds < 999950) return fmt::format("{:.1f} µs", value / 1e3);
  if (nanoseconds < 999950000) return fmt::format("{:.1f} ms", value / 1e6);
  return fmt::format("{:.1f} s", value / 1e9);
}

std::string time_text(int64_t nanoseconds, unsigned digits) {
  constexpr int64_t kPerSecond = 1000000000;
  int64_t fraction = nanoseconds % kPerSecond;
  time_t seconds = nanoseconds / kPerSecond;
  if (fraction < 0) {
    fraction += kPerSecond;
    --seconds;
  }
  std::tm calendar{};
  gmtime_r(&seconds, &calendar);
  const std::string fraction_text = fmt::format("{:09}", fraction).substr(0, digits);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{}Z", calendar.tm_year + 1900,
                     calendar.tm_mon + 1, calendar.tm_mday, calendar.tm_hour, calendar.tm_min,
                     calendar.tm_sec, fraction_text);
}

uint64_t whole_number(double number) {
  constexpr double kMost = 9e18;  // fits into 63 bits
  return number <= 0 ? 0 : static_cast<uint64_t>(std::llround(std::min(number, kMost)));
}

}  // namespace heapsnap
