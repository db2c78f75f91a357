#include "report/map_palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace heapsnap {

namespace {

using ClassKind = MapClass::Kind;

constexpr Paint kBySize[] = {{0x44, 0x01, 0x54}, {0x47, 0x2f, 0x7d}, {0x39, 0x56, 0x8c},
                             {0x28, 0x7c, 0x8e}, {0x1f, 0x98, 0x8b}, {0x35, 0xb7, 0x79},
                             {0x6d, 0xcd, 0x59}, {0xb4, 0xde, 0x2c}};
constexpr Paint kByRank[] = {{0x33, 0x22, 0x88}, {0xcc, 0x66, 0x77}, {0x11, 0x77, 0x33},
                             {0xdd, 0xcc, 0x77}, {0x88, 0x22, 0x55}, {0x44, 0xaa, 0x99},
                             {0x88, 0xcc, 0xee}};
static_assert(std::size(kByRank) == MapClasses::kRanked);

// `standing_out`: what "in use" and "free" must leave room for, or kInUse. `rank`: which one it is
// of its kind.
Paint paint_of(ClassKind kind, ClassKind standing_out, size_t rank) {
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
    case ClassKind::kSize: return kBySize[std::min(rank, std::size(kBySize) - 1)];
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
    const size_t rank = met[static_cast<size_t>(each.kind)]++;
    paints_.push_back(paint_of(each.kind, standing_out, rank));
    is_live_.push_back(each.is_live());
  }
}

Paint MapPalette::of_square(std::span<const uint32_t> bytes) const {
  uint64_t all = 0;
  uint64_t live = 0;
  size_t most = paints_.size();
  for (size_t i = 0; i < bytes.size(); ++i) {
    all += bytes[i];
    if (!is_live_[i]) continue;
    live += bytes[i];
    if (bytes[i] != 0 && (most == paints_.size() || bytes[i] > bytes[most])) most = i;
  }
  if (all == 0) return kPaper;
  constexpr uint64_t kSteps = 16;
  const auto steps_of = [&](uint64_t part) { return (part * kSteps + all / 2) / all; };
  std::array<uint64_t, 3> sum{};
  uint64_t steps = 0;
  const auto add = [&](const Paint& paint, uint64_t share) {
    sum[0] += paint.red * share;
    sum[1] += paint.green * share;
    sum[2] += paint.blue * share;
    steps += share;
  };
  if (live != 0) add(paints_[most], std::max<uint64_t>(steps_of(live), 1));
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!is_live_[i]) add(paints_[i], steps_of(bytes[i]));
  }
  if (steps == 0) return kPaper;
  const auto share = [&](uint64_t part) { return static_cast<uint8_t>(part / steps); };
  return {share(sum[0]), share(sum[1]), share(sum[2])};
}

}  // namespace heapsnap
