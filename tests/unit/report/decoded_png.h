// A picture as a reader of PNG sees it.
#pragma once

#include <doctest/doctest.h>
#include <png.h>

#include <string>
#include <vector>

#include "report/map_palette.h"

namespace heapsnap::test {

struct DecodedPng {
  unsigned width = 0;
  unsigned height = 0;
  std::vector<png_byte> colors;

  explicit DecodedPng(const std::string& file) {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    REQUIRE(png_image_begin_read_from_memory(&image, file.data(), file.size()) != 0);
    image.format = PNG_FORMAT_RGB;
    width = image.width;
    height = image.height;
    colors.resize(PNG_IMAGE_SIZE(image));
    REQUIRE(png_image_finish_read(&image, nullptr, colors.data(), 0, nullptr) != 0);
  }

  Paint at(unsigned x, unsigned y) const {
    const png_byte* pixel = &colors[(size_t{y} * width + x) * 3];
    return {pixel[0], pixel[1], pixel[2]};
  }
};

}  // namespace heapsnap::test
