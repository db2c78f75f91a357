#include "analysis/heap_map.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace heapsnap {

namespace {

// Gaps and ends may take this share of the squares at most: one in so many.
constexpr uint64_t kSquaresPerRegion = 8;

}  // namespace

HeapMap::HeapMap(std::span<const HeapRegion> regions, const MapPanels& panels, uint64_t scale)
    : shift_(static_cast<unsigned>(std::countr_zero(scale))) {
  uint64_t squares = 0;
  for (const HeapRegion& region : regions) squares += region.range.size() >> shift_;
  if (!place(regions, panels, squares / kSquaresPerRegion >= regions.size())) {
    squares_ = UINT64_MAX;
  }
}

// In the order of panels, and in each of addresses. False where squares cannot be counted.
bool HeapMap::place(std::span<const HeapRegion> regions, const MapPanels& panels, bool has_gaps) {
  by_square_.resize(regions.size());
  std::iota(by_square_.begin(), by_square_.end(), uint32_t{0});
  std::stable_sort(by_square_.begin(), by_square_.end(), [&](uint32_t a, uint32_t b) {
    return panels.of_region[a] < panels.of_region[b];
  });
  pieces_.resize(regions.size());
  panels_.resize(panels.panels.size());
  const uint64_t mask = scale() - 1;
  uint64_t next = 0;  // the square, and how many bytes of it are taken
  uint64_t taken = 0;
  uint32_t panel = UINT32_MAX;
  for (const uint32_t i : by_square_) {
    const AddressRange& range = regions[i].range;
    if (panels.of_region[i] != panel) {
      panel = panels.of_region[i];
      if (taken != 0) ++next;
      taken = 0;
      panels_[panel].first = next;
    } else if (has_gaps) {
      next += taken != 0 ? 2 : 1;
      taken = 0;
    }
    if (taken == 0) taken = range.begin.value() & mask;
    pieces_[i] = {range, next, taken, panel};
    const uint64_t size = range.size();
    next += (size >> shift_) + ((taken + (size & mask)) >> shift_);
    taken = (taken + (size & mask)) & mask;
    if (next > UINT64_MAX / 2) return false;
    panels_[panel].count = next + (taken != 0 ? 1 : 0) - panels_[panel].first;
    squares_ = panels_[panel].first + panels_[panel].count;
  }
  return true;
}

std::optional<Address> HeapMap::address_of(uint64_t square) const {
  const auto after = std::upper_bound(
      by_square_.begin(), by_square_.end(), square,
      [&](uint64_t which, uint32_t piece) { return which < pieces_[piece].first; });
  if (after == by_square_.begin()) return std::nullopt;
  // Several pieces may share a square: the first of them has its first byte.
  auto found = std::prev(after);
  while (found != by_square_.begin() && pieces_[*found].first == square) {
    const Piece& before = pieces_[*std::prev(found)];
    if (before.panel != pieces_[*found].panel || square_of(before, before.range.end - 1) < square) {
      break;
    }
    --found;
  }
  const Piece& piece = pieces_[*found];
  if (square == piece.first) return piece.range.begin;
  const Address address = piece.range.begin + (((square - piece.first) << shift_) - piece.lead);
  if (address >= piece.range.end) return std::nullopt;
  return address;
}

}  // namespace heapsnap
