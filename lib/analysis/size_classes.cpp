#include "analysis/size_classes.h"

#include <algorithm>

namespace heapsnap {

namespace {

// "2 MiB", of a power of two.
std::string power_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  for (; bytes >= 1024; bytes >>= 10) ++unit;
  return std::to_string(bytes) + " " + kUnits[unit];
}

}  // namespace

std::string size_class_name(const SizeClass& each) {
  if (each.end == each.begin + SizeClasses::kStep) return std::to_string(each.begin) + " B";
  if (each.end == 0) return power_text(uint64_t{1} << 63) + " and more";
  return power_text(each.end >> 1) + " to " + power_text(each.end);
}

uint64_t SizeClasses::smallest_of(size_t index) {
  return index < kExactCount ? index * kStep : uint64_t{1} << (index - kExactCount);
}

std::vector<SizeClass> SizeClasses::by_power() const {
  std::vector<SizeClass> classes;
  for (size_t index = 0; index < kCount; ++index) {
    const Tally& used = cells_[kUsed][index];
    const Tally& free = cells_[kFree][index];
    if (used.count == 0 && free.count == 0) continue;
    const uint64_t begin = std::bit_floor(smallest_of(index));
    if (classes.empty() || classes.back().begin != begin) {
      classes.push_back({begin, begin == 0 ? kStep : begin << 1, {}, {}});
    }
    classes.back().used += used;
    classes.back().free += free;
  }
  return classes;
}

std::vector<SizeClass> SizeClasses::most_used(size_t count) const {
  return most_used_below(kExactCount, count);
}

std::vector<SizeClass> SizeClasses::all_used() const {
  return most_used_below(kCount, kCount);
}

std::vector<SizeClass> SizeClasses::most_used_below(size_t limit, size_t count) const {
  std::vector<SizeClass> classes;
  for (size_t index = 0; index < limit; ++index) {
    if (cells_[kUsed][index].count == 0) continue;
    const bool is_exact = index < kExactCount;
    const uint64_t begin = smallest_of(index);
    const uint64_t end = is_exact ? begin + kStep : begin << 1;  // 0 beyond the last
    classes.push_back({is_exact ? begin : std::max(begin, kExactLimit + kStep), end,
                       cells_[kUsed][index], cells_[kFree][index]});
  }
  std::stable_sort(classes.begin(), classes.end(), [](const SizeClass& a, const SizeClass& b) {
    return a.used.bytes > b.used.bytes;
  });
  classes.resize(std::min(classes.size(), count));
  return classes;
}

}  // namespace heapsnap
