#include "report/heap_picture.h"

#include <doctest/doctest.h>
#include <png.h>

#include <string>
#include <vector>

#include "base/error.h"

using namespace heapsnap;

TEST_CASE("a heap map becomes a PNG with a colour a state") {
  HeapMap map;
  map.width = 5;
  map.height = 1;
  map.bytes_per_pixel = 16;
  map.pixels = {{16, 0, 0, 0}, {0, 16, 0, 0}, {0, 16, 16, 0}, {16, 0, 0, 16}, {}};
  std::string file;
  Writer out(file);
  write_heap_picture(map, out);
  out.flush();

  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  REQUIRE(png_image_begin_read_from_memory(&image, file.data(), file.size()) != 0);
  CHECK(image.width == 5);
  CHECK(image.height == 1);
  image.format = PNG_FORMAT_RGB;
  std::vector<png_byte> colors(PNG_IMAGE_SIZE(image));
  REQUIRE(png_image_finish_read(&image, nullptr, colors.data(), 0, nullptr) != 0);
  const auto color = [&](size_t x) {
    return std::vector<int>(colors.begin() + static_cast<long>(3 * x),
                            colors.begin() + static_cast<long>(3 * x + 3));
  };
  CHECK(color(0) == std::vector<int>{0xd0, 0x18, 0x18});
  CHECK(color(1) == std::vector<int>{0x9a, 0x9a, 0x9a});
  CHECK(color(2) == std::vector<int>{0xff, 0xff, 0xff});
  CHECK(color(3) == std::vector<int>{0x20, 0x50, 0xd0});
  CHECK(color(4) == std::vector<int>{0, 0, 0});
}

TEST_CASE("an empty picture is refused") {
  std::string file;
  Writer out(file);
  CHECK_THROWS_AS(write_heap_picture(HeapMap{}, out), Error);
}
