// The heap as a map: a long row of squares, each of which represents the same number of bytes.
//
//   panel 0                                panel 1
//   [ region ........... ][gap][ region ]  [ region ................ ]
//    0  1  2  3  4  5  6   7    8  9 10     11 12 13 14 ...             squares
//
// Squares begin at multiples of their bytes, so a region may begin within one. An empty square
// parts it from the next in the panel. Where that would take more squares than bytes do, because
// there are very many regions, they follow each other without a gap, to the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/heap_regions.h"
#include "analysis/map_panels.h"
#include "base/address.h"

namespace heapsnap {

class HeapMap {
 public:
  static constexpr uint64_t kFinestScale = 16;

  struct Piece {
    AddressRange range;
    uint64_t first = 0;  // square that its first byte lies in
    uint64_t lead = 0;   // bytes of that square before it
    uint32_t panel = 0;
  };
  struct Squares {
    uint64_t first = 0;
    uint64_t count = 0;
  };

  HeapMap() = default;
  // `scale`: bytes a square, a power of two from kFinestScale on. `panels` are of `regions`.
  HeapMap(std::span<const HeapRegion> regions, const MapPanels& panels, uint64_t scale);

  uint64_t scale() const { return uint64_t{1} << shift_; }
  // As the regions, ascending by address, disjoint.
  const std::vector<Piece>& pieces() const { return pieces_; }
  const std::vector<Squares>& panels() const { return panels_; }
  // Of all panels; UINT64_MAX where there are more than can be counted.
  uint64_t squares() const { return squares_; }

  // Of an address in the piece.
  uint64_t square_of(const Piece& piece, Address address) const {
    return piece.first + ((piece.lead + (address - piece.range.begin)) >> shift_);
  }
  // The address of a square's first byte; nothing where it is a gap, or past the last.
  std::optional<Address> address_of(uint64_t square) const;

 private:
  bool place(std::span<const HeapRegion> regions, const MapPanels& panels, bool has_gaps);

  unsigned shift_ = 4;
  std::vector<Piece> pieces_;
  std::vector<Squares> panels_;
  std::vector<uint32_t> by_square_;  // indices of pieces, in the order of their squares
  uint64_t squares_ = 0;
};

}  // namespace heapsnap
