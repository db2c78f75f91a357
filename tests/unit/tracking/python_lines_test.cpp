#include "tracking/python_lines.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace heapsnap;

namespace {

// Of what the interpreters of 3.9, 3.10, 3.11 and 3.13 made of one function, in line 301: its
// table, and up to which byte of its code which line goes. Lines go up and down in it.
struct LineSample {
  PythonLineTable kind;
  std::vector<uint8_t> table;
  std::vector<std::pair<uint64_t, uint32_t>> lines;
};
constexpr uint32_t kFirst = 301;
const std::vector<LineSample> kLineSamples = {
    {PythonLineTable::kAddresses,
     {0, 2, 6, 2, 2, 254, 6, 3, 2, 1, 2, 1, 2, 1, 2, 255, 2, 255, 8, 3, 18, 5, 2, 1, 2, 255},
     {{6, 303},
      {8, 305},
      {14, 303},
      {16, 306},
      {18, 307},
      {20, 308},
      {22, 309},
      {24, 308},
      {32, 307},
      {50, 310},
      {52, 315},
      {54, 316},
      {58, 315}}},
    {PythonLineTable::kRanges,
     {6,   2, 2, 2, 6, 254, 2,   3,  2,   1, 2, 1, 2, 1, 2,   255, 6,
      255, 2, 8, 2, 1, 4,   255, 14, 251, 2, 5, 2, 1, 4, 255, 2,   251},
     {{6, 303},
      {8, 305},
      {14, 303},
      {16, 306},
      {18, 307},
      {20, 308},
      {22, 309},
      {24, 308},
      {30, 307},
      {32, 315},
      {34, 316},
      {38, 315},
      {52, 310},
      {54, 315},
      {56, 316},
      {60, 315},
      {62, 310}}},
    {PythonLineTable::kLocations,
     {128, 0,   240, 4,  2,   9,   12, 240, 0,   2,   9,   12,  224, 9,   10,  240, 5,   2,
      9,   12,  241, 0,  2,   9,   12, 244, 0,   2,   9,   12,  128, 65,  240, 6,   4,   5,
      28,  216, 13,  14, 221, 13,  16, 216, 17,  18,  241, 3,   1,   14,  20,  244, 0,   1,
      14,  20,  241, 3,  2,   14,  20, 136, 1,   136, 1,   248, 245, 6,   0,   12,  22,  208,
      4,   27,  208, 4,  27,  208, 4,  27,  144, 116, 144, 116, 208, 4,   27,  248, 248, 248,
      240, 10,  0,   13, 14,  216, 12, 13,  240, 3,   1,   12,  15,  240, 0,   1,   5,   15},
     {{2, 301},
      {6, 303},
      {8, 305},
      {26, 303},
      {28, 306},
      {30, 307},
      {42, 308},
      {44, 309},
      {58, 308},
      {66, 307},
      {68, 0},
      {92, 310},
      {98, 0},
      {100, 315},
      {102, 316},
      {106, 315}}},
    {PythonLineTable::kLocations,
     {128, 0,  241, 8,   0,   10,  11, 243, 5,   2,   9,   12,  225, 9,   10,  240, 3,   0,
      14,  15, 243, 3,   0,   10,  11, 225, 9,   10,  240, 5,   0,   5,   6,   240, 0,   2,
      9,   12, 240, 6,   4,   5,   28, 216, 13,  14,  220, 13,  16,  216, 17,  18,  243, 3,
      1,   14, 20,  241, 3,   2,   14, 20,  136, 1,   240, 16,  0,   13,  14,  216, 12,  13,
      240, 3,  1,   12,  15,  240, 0,  1,   5,   15,  249, 242, 25,  2,   9,   12,  248, 244,
      14,  0,  12,  22,  211, 4,   27, 144, 116, 240, 10,  0,   13,  14,  216, 12,  13,  240,
      3,   1,  12,  15,  240, 0,   1,  5,   15,  240, 11,  0,   5,   28,  250},
     {{2, 301},   {6, 305},   {14, 303},  {18, 305},  {20, 304}, {28, 303}, {32, 305},
      {36, 303},  {38, 306},  {40, 307},  {50, 308},  {52, 309}, {60, 308}, {66, 307},
      {68, 315},  {70, 316},  {74, 315},  {78, 0},    {84, 303}, {86, 0},   {106, 310},
      {108, 315}, {110, 316}, {114, 315}, {116, 310}, {122, 0}}},
};

uint32_t line_of(const LineSample& sample, uint64_t at) {
  return python_line(sample.kind, std::as_bytes(std::span(sample.table)), kFirst, at);
}

}  // namespace

TEST_CASE("tables of each version say the line that their interpreter says") {
  for (const LineSample& sample : kLineSamples) {
    uint64_t at = 0;
    for (const auto& [end, line] : sample.lines) {
      for (; at < end; at += 2) CHECK(line_of(sample, at) == line);
    }
    // Behind the end, the oldest has none that it could tell from the last one.
    if (sample.kind != PythonLineTable::kAddresses) CHECK(line_of(sample, at) == 0);
  }
}

TEST_CASE("an entry may have a line that is far away, of a number of several bytes") {
  // No columns, one instruction; 2,000 lines further, then 1,990 back, then none.
  const std::vector<uint8_t> table = {0xe8, 0x60, 0x3e, 0xe8, 0x4d, 0x3e, 0xf8};
  const LineSample sample{PythonLineTable::kLocations, table, {}};
  CHECK(line_of(sample, 0) == kFirst + 2000);
  CHECK(line_of(sample, 2) == kFirst + 10);
  CHECK(line_of(sample, 4) == 0);
}

TEST_CASE("a table that is cut or damaged says some line, or none") {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    LineSample sample = kLineSamples[random() % kLineSamples.size()];
    sample.table.resize(random() % (sample.table.size() + 1));
    for (int i = 0; i < 4 && !sample.table.empty(); ++i) {
      sample.table[random() % sample.table.size()] = static_cast<uint8_t>(random());
    }
    CHECK(line_of(sample, random() % 200) <= INT32_MAX);
  }
  CHECK(python_line(PythonLineTable::kLocations, {}, kFirst, 0) == 0);
  CHECK(python_line(PythonLineTable::kAddresses, {}, kFirst, 0) == kFirst);
}
