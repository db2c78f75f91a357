#include "report/heap_picture.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "analysis/map_painter.h"
#include "base/error.h"
#include "report/bitmap_font.h"
#include "report/map_labels.h"
#include "tests/unit/analysis/handmade_snapshot.h"
#include "tests/unit/report/decoded_png.h"

using namespace heapsnap;
using heapsnap::test::DecodedPng;
using heapsnap::test::HandmadeSnapshot;

namespace {

HandmadeSnapshot heap_of(int arenas, uint64_t chunks, uint64_t size = 64) {
  HandmadeSnapshot snapshot;
  for (int arena = 0; arena < arenas; ++arena) {
    snapshot.add_arena(arena == 0);
    HandmadeSnapshot::Chunks all;
    for (uint64_t i = 0; i < chunks; ++i) {
      all.emplace_back(size, i % 4 == 3 ? ChunkState::kLargebin : ChunkState::kUsed);
    }
    snapshot.add_segment(arena, SegmentKind::kThreadHeap,
                         0x7f0000000000 + (static_cast<uint64_t>(arena) << 32), all);
  }
  return snapshot;
}

// A picture by state, and what it is of.
struct Drawn {
  HandmadeSnapshot snapshot;
  SnapshotStreams streams;
  MapClasses classes = MapClasses::by_state();
  std::vector<std::string> labels = map_labels(classes.list(), {}, {});
  HeapPicture picture;

  Drawn(HandmadeSnapshot of, const PictureSize& size)
      : snapshot(std::move(of)),
        streams(snapshot.streams()),
        picture(plan_picture(snapshot.metadata.heap, heap_regions(streams), size), classes,
                {snapshot.metadata, "by state", "", labels}, size.height,
                [this](const HeapMap& map, MapBand& band) {
                  return paint_band(streams, classes, map, band);
                }) {}
  Drawn(const Drawn&) = delete;
  Drawn& operator=(const Drawn&) = delete;

  std::string svg() {
    std::string file;
    Writer out(file);
    picture.write_svg(out);
    out.flush();
    return file;
  }
};

DecodedPng decoded_png(HeapPicture& picture) {
  std::string file;
  Writer out(file);
  picture.write_png(out);
  out.flush();
  return DecodedPng(file);
}

constexpr PictureSize kScreen{1280, 800, 0, 1};

bool says(const PictureWords& words, const std::string& text) {
  return std::any_of(words.texts.begin(), words.texts.end(), [&](const PictureText& each) {
    return each.text.find(text) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("an overview fits one screen, whatever the size of the heap, and uses it") {
  for (const uint64_t chunks : {1, 50, 800, 20'000, 400'000}) {
    for (const uint64_t size : {uint64_t{32}, uint64_t{4096}, uint64_t{1} << 20}) {
      CAPTURE(chunks * size);
      const Drawn drawn(heap_of(1, chunks, size), kScreen);
      const PictureFrame& frame = drawn.picture.frame();
      CHECK(drawn.picture.height() <= 800);
      REQUIRE(frame.panels.size() == 1);
      CHECK(frame.columns * frame.square <= 768);
      // The next finer scale, or the next larger squares, would not have fitted.
      if (chunks * size > 64 * 1024) CHECK(frame.map_bottom > 300);
      if (chunks * size <= 64 * 1024) CHECK(frame.square >= 8);
    }
  }
}

TEST_CASE("no region is an error, one has a panel, very many share some") {
  CHECK_THROWS_AS(plan_picture({}, {}, kScreen), Error);
  const Drawn one(heap_of(1, 10), kScreen);
  CHECK(one.picture.frame().panels.size() == 1);
  CHECK(says(one.picture.words(), "main arena"));
  const Drawn three(heap_of(3, 10), kScreen);
  CHECK(three.picture.frame().panels.size() == 3);
  CHECK(says(three.picture.words(), "arena 2"));
  const Drawn many(heap_of(500, 10), kScreen);
  CHECK(many.picture.frame().panels.size() <= 16);
  CHECK(many.picture.height() <= 800);
  CHECK(says(many.picture.words(), "500 arenas"));
  CHECK(says(many.picture.words(), "other arenas"));
}

TEST_CASE("panels lie one below the other, and texts inside of the picture") {
  const Drawn drawn(heap_of(5, 3000), kScreen);
  const PictureFrame& frame = drawn.picture.frame();
  unsigned bottom = 0;
  for (const PictureFrame::Panel& panel : frame.panels) {
    CHECK(panel.top >= bottom);
    CHECK(panel.map_top >= panel.top + kGlyphHeight);
    bottom = panel.map_top + static_cast<unsigned>(panel.rows) * frame.square;
  }
  CHECK(bottom <= frame.map_bottom);
  for (const PictureText& text : drawn.picture.words().texts) {
    CHECK(text.x + text.text.size() * kGlyphWidth <= 1280 + 2 * kGlyphWidth);  // "…" is 3 bytes
    CHECK(text.y + kGlyphHeight <= drawn.picture.height());
  }
}

TEST_CASE("small pictures have no words, and one pixel is enough for a column") {
  for (const unsigned width : {1U, 2U, 17U, 799U}) {
    for (const unsigned height : {16U, 100U, 8192U}) {
      for (const int arenas : {1, 3, 300}) {
        CAPTURE(width);
        CAPTURE(height);
        CAPTURE(arenas);
        Drawn drawn(heap_of(arenas, 100), {width, height, 0, 1});
        CHECK(drawn.picture.words().texts.empty());
        const DecodedPng image = decoded_png(drawn.picture);
        CHECK(image.width == width);
        CHECK(image.height > 0);
        CHECK(image.height <= height);
      }
    }
  }
}

TEST_CASE("with a scale of its own a picture grows, up to a bound with a way out") {
  const Drawn drawn(heap_of(1, 100'000), {1280, 800, 16, 1});
  CHECK(drawn.picture.frame().map.scale() == 16);
  CHECK(drawn.picture.height() <= 800);
  const Drawn tall(heap_of(1, 1'000'000), {1280, 800, 16, 1});
  CHECK(tall.picture.frame().square == 1);
  CHECK(tall.picture.height() > 5000);
  HandmadeSnapshot huge = heap_of(1, 1);
  huge.metadata.heap.segments[0].range.end = Address(UINT64_MAX);
  const auto regions = heap_regions(huge.streams());
  try {
    plan_picture(huge.metadata.heap, regions, {1280, 800, 16, 1});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    CHECK(error.remedy().find("--scale ") == 0);
  }
  CHECK(plan_picture(huge.metadata.heap, regions, kScreen).map_bottom <= 800);
}

TEST_CASE("the PNG has the colours of the legend, in proportion") {
  Drawn drawn(heap_of(1, 64 * 1024), kScreen);
  const DecodedPng image = decoded_png(drawn.picture);
  CHECK(image.width == 1280);
  CHECK(image.height == drawn.picture.height());
  const PictureFrame& frame = drawn.picture.frame();
  const MapPalette palette(drawn.classes.list());
  std::map<Paint, uint64_t> dots;
  for (unsigned y = frame.panels[0].map_top; y < frame.map_bottom; ++y) {
    for (unsigned x = 0; x < frame.columns * frame.square; ++x) {
      ++dots[image.at(frame.map_left + x, y)];
    }
  }
  const uint64_t used = dots[palette.of_class(0)];
  const uint64_t bins = dots[palette.of_class(3)];
  CHECK(used > 2 * bins);
  CHECK(used < 4 * bins);
  CHECK(image.at(0, 0) == kPaper);
}

TEST_CASE("dots are in proportion to bytes; what is empty has none") {
  const std::vector<uint32_t> bytes{10, 0, 30, 24};
  std::vector<unsigned> dots(bytes.size());
  for (unsigned y = 0; y < 8; ++y) {
    for (unsigned x = 0; x < 8; ++x) ++dots[class_of_dot(bytes, x, y).value()];
  }
  CHECK(dots == std::vector<unsigned>{10, 0, 30, 24});
  CHECK_FALSE(class_of_dot(std::vector<uint32_t>{0, 0}, 3, 5));
  const std::vector<uint32_t> full{UINT32_MAX, UINT32_MAX};
  CHECK(class_of_dot(full, 0, 0) == 0);
  CHECK(class_of_dot(full, 7, 0) == 1);
}

TEST_CASE("the legend has every class that there is, with shares that add up") {
  HandmadeSnapshot snapshot = heap_of(1, 1000);
  snapshot.add_pages(0x7f0000000000, 0x7f0000001000, PageState::kSwapped);
  const Drawn drawn(std::move(snapshot), kScreen);
  const PictureWords& words = drawn.picture.words();
  CHECK(says(words, "in use"));
  CHECK(says(words, "in swap"));
  CHECK_FALSE(says(words, "tcache"));
  CHECK(words.account == std::vector<std::string>{"in use: 44,928 bytes",
                                                  "free in bins: 14,976 bytes",
                                                  "in swap: 4,096 bytes", "total: 64,000 bytes"});
}

TEST_CASE("an SVG is escaped, and its shapes are few") {
  HandmadeSnapshot snapshot = heap_of(2, 200'000);
  snapshot.metadata.process.comm = "<a&b>\"\x01\xff";
  Drawn drawn(std::move(snapshot), {1280, 800, 0, 4});
  CHECK(drawn.picture.frame().square >= 4);
  const std::string file = drawn.svg();
  CHECK(file.starts_with("<svg "));
  CHECK(file.ends_with("</svg>\n"));
  CHECK(file.find("<a&b>") == std::string::npos);
  CHECK(file.find("&lt;a&amp;b&gt;&quot;") != std::string::npos);
  CHECK(std::none_of(file.begin(), file.end(), [](char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return (byte < 0x20 && byte != '\n') || byte == 0xff;
  }));
  CHECK(file.size() < 1'500'000);
}

TEST_CASE("every letter of ASCII has a shape, and what is not there a frame") {
  for (char32_t letter = U'!'; letter <= U'~'; ++letter) {
    const GlyphRows rows = glyph_rows(letter);
    CHECK(std::any_of(rows.begin(), rows.end(), [](uint16_t row) { return row != 0; }));
    CHECK(std::all_of(rows.begin(), rows.end(), [](uint16_t row) { return row < 1 << 9; }));
    CHECK(rows != glyph_rows(U'\u6f22'));
  }
  CHECK(glyph_rows(U' ') == GlyphRows{});
}
