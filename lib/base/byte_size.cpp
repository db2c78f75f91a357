#include "base/byte_size.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>

#include "base/error.h"

namespace heapsnap {

namespace {

struct Unit {
  const char* name;  // in lower case
  uint64_t times;
};

// What kind of quantity an option takes.
struct Quantity {
  std::span<const Unit> units;
  uint64_t most;
  const char* what;  // "a time"
  const char* example;
};

// `text`: a number and one of the units.
uint64_t parse_quantity(const std::string& option, const std::string& text,
                        const Quantity& quantity) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::kUsage, option + " " + text, why,
                "for example: " + option + " " + quantity.example);
  };
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string name(end, text.data() + text.size());
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto unit = std::find_if(quantity.units.begin(), quantity.units.end(),
                                 [&](const Unit& one) { return name == one.name; });
  if (error == std::errc::invalid_argument || unit == quantity.units.end()) {
    refuse(std::string("not ") + quantity.what);
  }
  if (error != std::errc() || number > quantity.most / unit->times) refuse("it is too large");
  if (number == 0) refuse("it must be more than 0");
  return number * unit->times;
}

}  // namespace

uint64_t parse_byte_size(const std::string& option, const std::string& text) {
  constexpr uint64_t kKiB = 1ULL << 10;
  constexpr uint64_t kMiB = 1ULL << 20;
  constexpr uint64_t kGiB = 1ULL << 30;
  constexpr uint64_t kTiB = 1ULL << 40;
  constexpr Unit kUnits[] = {{"", 1},       {"b", 1},     {"k", kKiB},   {"kb", kKiB},
                             {"kib", kKiB}, {"m", kMiB},  {"mb", kMiB},  {"mib", kMiB},
                             {"g", kGiB},   {"gb", kGiB}, {"gib", kGiB}, {"t", kTiB},
                             {"tb", kTiB},  {"tib", kTiB}};
  return parse_quantity(option, text, {kUnits, UINT64_MAX, "a size in bytes", "64MiB"});
}

uint64_t parse_duration_ms(const std::string& option, const std::string& text) {
  constexpr Unit kUnits[] = {{"", 1000},        {"ms", 1},         {"s", 1000},
                             {"m", 60'000},     {"min", 60'000},   {"h", 3'600'000},
                             {"d", 86'400'000}, {"w", 604'800'000}};
  constexpr uint64_t kLongest = 1ULL << 40;
  return parse_quantity(option, text, {kUnits, kLongest, "a time", "10s"});
}

}  // namespace heapsnap
