// Colours of a picture of the heap.
//
// What is in use is dark, what is free is lighter, what costs no memory is the lightest, so that a
// picture can be read in black and white. Neighbours differ in lightness and not only in hue, for
// those who do not see all hues: the hues are from palettes made for them (Okabe and Ito, Tol,
// viridis).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/map_classes.h"

namespace heapsnap {

struct Paint {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;
  auto operator<=>(const Paint&) const = default;
};
inline constexpr Paint kPaper{0xff, 0xff, 0xff};
inline constexpr Paint kDarkInk{0x1a, 0x1a, 0x1a};
inline constexpr Paint kPaleInk{0x55, 0x55, 0x55};

// "#1a2b3c"
std::string paint_code(const Paint& paint);

class MapPalette {
 public:
  explicit MapPalette(std::span<const MapClass> classes);

  const Paint& of_class(size_t index) const { return paints_[index]; }

 private:
  std::vector<Paint> paints_;
};

// The class of the dot at (x, y) of something that has so many bytes of each class; nothing where
// it has none. Dots are of the classes in proportion to their bytes, and evenly spread (Bayer's
// ordered dither, 8 by 8), so that each keeps the colour that the legend explains.
std::optional<size_t> class_of_dot(std::span<const uint32_t> bytes, unsigned x, unsigned y);

}  // namespace heapsnap
