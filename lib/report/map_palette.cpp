#include "report/map_palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace heapsnap {

namespace {

using ClassKind = MapClass::Kind;

// From little to much, by size or by age.
constexpr Paint kByDegree[] = {{0x44, 0x01, 0x54}, {0x47, 0x2f, 0x7d}, {0x39, 0x56, 0x8c},
                               {0x28, 0x7c, 0x8e}, {0x1f, 0x98, 0x8b}, {0x35, 0xb7, 0x79},
                               {0x6d, 0xcd, 0x59}, {0xb4, 0xde, 0x2c}};
constexpr Paint kByRank[] = {{0x33, 0x22, 0x88}, {0xcc, 0x66, 0x77}, {0x11, 0x77, 0x33},
                             {0xdd, 0xcc, 0x77}, {0x88, 0x22, 0x55}, {0x44, 0xaa, 0x99},
                             {0x88, 0xcc, 0xee}};
static_assert(std::size(kByRank) == MapClasses::kRanked);

constexpr unsigned kBayer[8][8] = {
    {0, 32, 8, 40, 2, 34, 10, 42},  {48, 16, 56, 24, 50, 18, 58, 26},
    {12, 44, 4, 36, 14, 46, 6, 38}, {60, 28, 52, 20, 62, 30, 54, 22},
    {3, 35, 11, 43, 1, 33, 9, 41},  {51, 19, 59, 27, 49, 17, 57, 25},
    {15, 47, 7, 39, 13, 45, 5, 37}, {63, 31, 55, 23, 61, 29, 53, 21}};

// `standing_out`: what "in use" and "free" must leave room for, or kInUse. `rank`: which one it is
// of the `count` of its kind.
Paint paint_of(ClassKind kind, ClassKind standing_out, size_t rank, size_t count) {
  switch (kind) {
    case ClassKind::kInUse:
      if (standing_out == ClassKind::kLeaked) return {0x7d, 0xa7, 0xcf};
      if (standing_out == ClassKind::kInUseHuge) return {0x4a, 0x90, 0xc8};
      return {0x0b, 0x4f, 0x8a};
    case ClassKind::kTcache: return {0xcc, 0x79, 0xa7};
    case ClassKind::kFastbin: return {0x9b, 0x4f, 0x96};
    case ClassKind::kBins: return {0xf5, 0xa8, 0x3c};
    case ClassKind::kTop: return {0x8f, 0xd0, 0xc0};
    case ClassKind::kFence: return {0x77, 0x77, 0x77};
    case ClassKind::kUnwalked: return {0xd4, 0x00, 0x55};
    case ClassKind::kInUseHuge: return {0x08, 0x30, 0x6b};
    case ClassKind::kFree:
      if (standing_out == ClassKind::kInUseHuge) return {0xfd, 0xc2, 0x72};
      return {0xd4, 0xd4, 0xd4};
    case ClassKind::kFreeHuge: return {0xc0, 0x5a, 0x10};
    case ClassKind::kSwapped: return {0x00, 0x00, 0x00};
    case ClassKind::kAbsent:
    case ClassKind::kFreeElsewhere: return {0xee, 0xee, 0xee};
    case ClassKind::kUnknownPages: return {0x88, 0x88, 0x88};
    case ClassKind::kSize: return kByDegree[std::min(rank, std::size(kByDegree) - 1)];
    case ClassKind::kAge:
      // As far apart as they can be.
      return kByDegree[rank * (std::size(kByDegree) - 1) / std::max<size_t>(count - 1, 1)];
    case ClassKind::kType:
    case ClassKind::kStack: return kByRank[std::min(rank, std::size(kByRank) - 1)];
    case ClassKind::kOtherTypes:
    case ClassKind::kOtherStacks: return {0x99, 0x99, 0x99};
    case ClassKind::kUnknownType:
    case ClassKind::kNoStack: return {0x70, 0x64, 0x58};
    case ClassKind::kLeaked: return {0xb2, 0x18, 0x2b};
  }
  return kDarkInk;
}

}  // namespace

std::string paint_code(const Paint& paint) {
  return fmt::format("#{:02x}{:02x}{:02x}", paint.red, paint.green, paint.blue);
}

MapPalette::MapPalette(std::span<const MapClass> classes) {
  ClassKind standing_out = ClassKind::kInUse;
  for (const MapClass& each : classes) {
    if (each.kind == ClassKind::kLeaked || each.kind == ClassKind::kInUseHuge)
      standing_out = each.kind;
  }
  std::array<size_t, 32> met{};
  for (const MapClass& each : classes) {
    const auto count = std::count_if(classes.begin(), classes.end(), [&](const MapClass& other) {
      return other.kind == each.kind;
    });
    const size_t rank = met[static_cast<size_t>(each.kind)]++;
    paints_.push_back(paint_of(each.kind, standing_out, rank, static_cast<size_t>(count)));
  }
}

std::optional<size_t> class_of_dot(std::span<const uint32_t> bytes, unsigned x, unsigned y) {
  const uint64_t all = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
  // In the middle of one of as many parts of all as there are dots.
  const uint64_t place = all * (2 * kBayer[y % 8][x % 8] + 1) / 128;
  uint64_t end = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    end += bytes[i];
    if (place < end) return i;
  }
  return std::nullopt;
}

}  // namespace heapsnap
