#include "base/count_text.h"

#include <array>

namespace heapsnap {

namespace {

constexpr std::array<const char*, 7> kUnits = {"", "K", "M", "G", "T", "P", "E"};

// Whole units, tenths, and which unit.
struct ScaledSize {
  uint64_t whole;
  unsigned tenths;
  size_t unit;
};

ScaledSize scale(uint64_t bytes) {
  size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >> (10 * unit) >= 1024) ++unit;
  if (unit == 0) return {bytes, 0, 0};
  const size_t bits = 10 * unit;
  const uint64_t fraction = bytes & ((uint64_t{1} << bits) - 1);  // below 2^60: no overflow
  const uint64_t tenths = (fraction * 10 + (uint64_t{1} << (bits - 1))) >> bits;
  const uint64_t whole = (bytes >> bits) + tenths / 10;
  if (whole == 1024 && unit + 1 < kUnits.size()) return {1, 0, unit + 1};
  return {whole, static_cast<unsigned>(tenths % 10), unit};
}

std::string tenths_text(const ScaledSize& size) {
  return std::to_string(size.whole) + "." + std::to_string(size.tenths);
}

}  // namespace

std::string count_text(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t place = text.size(); place > 3;) {
    place -= 3;
    text.insert(place, 1, ',');
  }
  return text;
}

std::string count_text(uint64_t count, const std::string& singular, const std::string& plural) {
  return count_text(count) + " " + (count == 1 ? singular : plural);
}

std::string size_text(uint64_t bytes) {
  const ScaledSize size = scale(bytes);
  if (size.unit == 0) return std::to_string(bytes) + " B";
  return tenths_text(size) + " " + kUnits[size.unit] + "iB";
}

std::string short_size_text(uint64_t bytes) {
  const ScaledSize size = scale(bytes);
  return size.unit == 0 ? std::to_string(bytes) : tenths_text(size) + kUnits[size.unit];
}

}  // namespace heapsnap
