#include "base/byte_size.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/error.h"

namespace heapsnap {

namespace {

// The number in front of `text`, and the unit behind it in lower case.
uint64_t split(const std::string& text, std::string& unit) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return 0;
  unit.assign(end, text.data() + text.size());
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size()
                                                                 : unit.find_first_not_of(' '));
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return number;
}

[[noreturn]] void refuse(const std::string& option, const std::string& text, const char* what,
                         const char* example) {
  throw Error(ErrorKind::kUsage, option + " " + text, std::string("not ") + what,
              std::string("for example: ") + option + " " + example);
}

}  // namespace

uint64_t parse_byte_size(const std::string& option, const std::string& text) {
  struct Unit {
    const char* name;
    unsigned shift;
  };
  constexpr Unit kUnits[] = {{"", 0},     {"b", 0},   {"k", 10},   {"kb", 10}, {"kib", 10},
                             {"m", 20},   {"mb", 20}, {"mib", 20}, {"g", 30},  {"gb", 30},
                             {"gib", 30}, {"t", 40},  {"tb", 40},  {"tib", 40}};
  std::string unit;
  const uint64_t number = split(text, unit);
  for (const Unit& known : kUnits) {
    if (unit != known.name || number == 0 || number > (UINT64_MAX >> known.shift)) continue;
    return number << known.shift;
  }
  refuse(option, text, "a size in bytes", "64MiB");
}

uint64_t parse_duration_ms(const std::string& option, const std::string& text) {
  struct Unit {
    const char* name;
    uint64_t milliseconds;
  };
  constexpr Unit kUnits[] = {{"", 1000},        {"ms", 1},         {"s", 1000},
                             {"m", 60'000},     {"min", 60'000},   {"h", 3'600'000},
                             {"d", 86'400'000}, {"w", 604'800'000}};
  constexpr uint64_t kLongest = 1ULL << 40;
  std::string unit;
  const uint64_t number = split(text, unit);
  for (const Unit& known : kUnits) {
    if (unit != known.name || number == 0 || number > kLongest / known.milliseconds) continue;
    return number * known.milliseconds;
  }
  refuse(option, text, "a time", "10s");
}

}  // namespace heapsnap
