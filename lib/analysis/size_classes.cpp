#include "analysis/size_classes.h"

#include <algorithm>

namespace heapsnap {

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
  std::vector<SizeClass> classes;
  for (size_t index = 0; index < kExactCount; ++index) {
    if (cells_[kUsed][index].count == 0) continue;
    const uint64_t begin = smallest_of(index);
    classes.push_back({begin, begin + kStep, cells_[kUsed][index], cells_[kFree][index]});
  }
  std::stable_sort(classes.begin(), classes.end(), [](const SizeClass& a, const SizeClass& b) {
    return a.used.bytes > b.used.bytes;
  });
  classes.resize(std::min(classes.size(), count));
  return classes;
}

}  // namespace heapsnap
