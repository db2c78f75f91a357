#include "target/free_place.h"

#include <algorithm>

namespace heapsnap {

namespace {

constexpr uint64_t kRoomToGrow = uint64_t{64} << 20;
constexpr Address kLowest(uint64_t{1} << 16);  // vm.mmap_min_addr, as Debian and others set it

}  // namespace

std::optional<Address> free_place(const std::vector<Mapping>& mappings, const AddressRange& near,
                                  uint64_t size, uint64_t reach) {
  std::optional<Address> best;
  uint64_t best_distance = reach;
  const auto propose = [&](Address begin) {
    const Address end = begin + size;
    const uint64_t distance = std::max(end, near.end).value() - std::min(begin, near.begin).value();
    if (distance > best_distance) return;
    best_distance = distance;
    best = begin;
  };
  Address gap_begin = kLowest;
  bool is_above_heap = true;  // or above nothing, where the null page is near
  for (const Mapping& mapping : mappings) {
    const bool is_below_stack = mapping.path == "[stack]";
    const uint64_t gap =
        mapping.range.begin > gap_begin ? mapping.range.begin - gap_begin : uint64_t{0};
    const uint64_t room = size + (is_above_heap || is_below_stack ? kRoomToGrow : 0);
    if (gap >= room) {
      if (!is_below_stack) propose(mapping.range.begin - size);
      if (!is_above_heap) propose(gap_begin);
    }
    gap_begin = std::max(gap_begin, mapping.range.end);
    is_above_heap = mapping.path == "[heap]";
  }
  return best;
}

}  // namespace heapsnap
