#include "tracking/python_lines.h"

namespace heapsnap {

namespace {

constexpr uint64_t kCodeUnit = 2;  // bytes of an instruction

uint8_t unsigned_at(std::span<const std::byte> table, size_t at) {
  return std::to_integer<uint8_t>(table[at]);
}

int8_t signed_at(std::span<const std::byte> table, size_t at) {
  return static_cast<int8_t>(unsigned_at(table, at));
}

uint32_t checked(int64_t line) {
  return line > 0 && line <= INT32_MAX ? static_cast<uint32_t>(line) : 0;
}

uint32_t by_addresses(std::span<const std::byte> table, int64_t line, uint64_t at) {
  uint64_t begin = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    begin += unsigned_at(table, i);
    if (begin > at) break;
    line += signed_at(table, i + 1);
  }
  return checked(line);
}

uint32_t by_ranges(std::span<const std::byte> table, int64_t line, uint64_t at) {
  constexpr int8_t kNoLine = -128;
  uint64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const int8_t further = signed_at(table, i + 1);
    if (further != kNoLine) line += further;
    end += unsigned_at(table, i);
    if (at < end) return further == kNoLine ? 0 : checked(line);
  }
  return 0;
}

// Six bits a byte, the lowest first, as long as the seventh is set; the lowest of all is the sign.
int64_t signed_varint(std::span<const std::byte> table, size_t at) {
  constexpr unsigned kBits = 6;
  constexpr unsigned kMostBits = 36;
  uint64_t value = 0;
  for (unsigned shift = 0; at < table.size() && shift < kMostBits; shift += kBits, ++at) {
    const uint8_t byte = unsigned_at(table, at);
    value |= uint64_t{byte & 0x3FU} << shift;
    if ((byte & 0x40U) == 0) break;
  }
  const auto whole = static_cast<int64_t>(value >> 1);
  return (value & 1) != 0 ? -whole : whole;
}

uint32_t by_locations(std::span<const std::byte> table, int64_t line, uint64_t at) {
  // Codes of entries: of less, the line stays, as with the first of those that have columns.
  constexpr unsigned kOneLine = 10;
  constexpr unsigned kNoColumns = 13;
  constexpr unsigned kLong = 14;
  constexpr unsigned kNone = 15;
  uint64_t end = 0;
  for (size_t i = 0; i < table.size();) {
    const uint8_t head = unsigned_at(table, i);
    if ((head & 0x80U) == 0) return 0;
    const unsigned code = head >> 3 & 0xFU;
    if (code == kNoColumns || code == kLong) {
      line += signed_varint(table, i + 1);
    } else if (code >= kOneLine && code < kNoColumns) {
      line += code - kOneLine;
    }
    end += ((head & 7U) + uint64_t{1}) * kCodeUnit;
    if (at < end) return code == kNone ? 0 : checked(line);
    do {
      ++i;
    } while (i < table.size() && (unsigned_at(table, i) & 0x80U) == 0);
  }
  return 0;
}

}  // namespace

uint32_t python_line(PythonLineTable kind, std::span<const std::byte> table, uint32_t first,
                     uint64_t at) {
  switch (kind) {
    case PythonLineTable::kAddresses: return by_addresses(table, first, at);
    case PythonLineTable::kRanges: return by_ranges(table, first, at);
    case PythonLineTable::kLocations: return by_locations(table, first, at);
  }
  return 0;
}

}  // namespace heapsnap
