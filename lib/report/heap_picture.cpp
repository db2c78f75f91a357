#include "report/heap_picture.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace heapsnap {

namespace {

struct Color {
  double red;
  double green;
  double blue;
};

constexpr Color kUsed{0xd0, 0x18, 0x18};
constexpr Color kFree{0x9a, 0x9a, 0x9a};
constexpr Color kAbsent{0xff, 0xff, 0xff};
constexpr Color kSwapped{0x20, 0x50, 0xd0};

Color mix(const Color& first, const Color& second, double share_of_second) {
  const double rest = 1.0 - share_of_second;
  return {first.red * rest + second.red * share_of_second,
          first.green * rest + second.green * share_of_second,
          first.blue * rest + second.blue * share_of_second};
}

std::array<png_byte, 3> color_of(const HeapMap::Pixel& pixel) {
  const uint64_t bytes = uint64_t{pixel.used} + pixel.free;
  if (bytes == 0) return {0, 0, 0};
  const auto share = [&](uint64_t part) {
    return std::min(1.0, static_cast<double>(part) / static_cast<double>(bytes));
  };
  Color color = mix(kFree, kUsed, share(pixel.used));
  color = mix(color, kAbsent, share(pixel.absent));
  color = mix(color, kSwapped, share(pixel.swapped));
  return {static_cast<png_byte>(color.red), static_cast<png_byte>(color.green),
          static_cast<png_byte>(color.blue)};
}

}  // namespace

void write_heap_picture(const HeapMap& map, Writer& out) {
  if (map.height == 0) {
    throw Error(ErrorKind::kOutput, "cannot make the picture", "the heap has no chunks");
  }
  std::vector<png_byte> colors;
  colors.reserve(map.pixels.size() * 3);
  for (const HeapMap::Pixel& pixel : map.pixels) {
    const auto color = color_of(pixel);
    colors.insert(colors.end(), color.begin(), color.end());
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = map.width;
  image.height = map.height;
  image.format = PNG_FORMAT_RGB;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = file.size();
  if (png_image_write_to_memory(&image, file.data(), &size, 0, colors.data(), 0, nullptr) == 0) {
    throw Error(ErrorKind::kOutput, "cannot make the picture", image.message);
  }
  out.write(std::string_view(file).substr(0, size));
}

}  // namespace heapsnap
