#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "report/bitmap_font.h"
#include "report/heap_picture.h"
#include "report/png_rows.h"
#include "report/utf8.h"

namespace heapsnap {

namespace {

// In squares from this side on, it is seen where chunks begin, and rows are apart.
constexpr unsigned kLeastMarkedSide = 4;
// Where a square is more bytes than this, chunks begin in nearly all of them.
constexpr uint64_t kMostMarkedScale = 32;

// The colours of a picture: paper, those of the classes, and those of words.
class InkBox {
 public:
  InkBox(const MapPalette& palette, size_t classes) : paints_{kPaper} {
    for (size_t i = 0; i < classes; ++i) paints_.push_back(palette.of_class(i));
    paints_.insert(paints_.end(), {kDarkInk, kPaleInk});
  }
  const std::vector<Paint>& paints() const { return paints_; }
  static uint8_t of_class(size_t index) { return static_cast<uint8_t>(index + 1); }
  // Of a colour that is there.
  uint8_t of(const Paint& paint) const {
    return static_cast<uint8_t>(std::find(paints_.begin(), paints_.end(), paint) - paints_.begin());
  }

 private:
  std::vector<Paint> paints_;
};

// One row of pixels: numbers of inks.
class PixelRow {
 public:
  explicit PixelRow(unsigned width) : pixels_(width) {}

  std::span<const uint8_t> pixels() const { return pixels_; }
  void clear() { std::fill(pixels_.begin(), pixels_.end(), uint8_t{0}); }
  void fill(unsigned x, unsigned width, uint8_t ink) {
    for (size_t i = x; i < std::min(pixels_.size(), size_t{x} + width); ++i) pixels_[i] = ink;
  }
  // Row `y` of the letters of `text`.
  void letters(const PictureText& text, unsigned y, uint8_t ink) {
    unsigned x = text.x;
    for (std::string_view left = text.text; !left.empty(); x += kGlyphWidth) {
      const uint16_t row = glyph_rows(take_utf8(left).value_or(U'\ufffd'))[y];
      const unsigned bits = text.is_bold ? row | row >> 1U : row;
      for (unsigned i = 0; i < kGlyphWidth; ++i) {
        if ((bits >> (kGlyphWidth - 1 - i) & 1U) != 0) fill(x + i, 1, ink);
      }
    }
  }

 private:
  std::vector<uint8_t> pixels_;
};

}  // namespace

void HeapPicture::write_png(Writer& out) {
  std::string account;
  for (const std::string& line : words_.account) account += line + "\n";
  const InkBox inks(palette_, classes_);
  PngRows png(frame_.width, words_.height, inks.paints(),
              {{"Title", words_.title}, {"Description", account}, {"Software", "heapsnap"}}, out);
  const bool is_marked =
      frame_.square >= kLeastMarkedSide && frame_.map.scale() <= kMostMarkedScale;
  PixelRow pixels(frame_.width);
  size_t panel = 0;
  for (unsigned y = 0; y < words_.height; ++y) {
    pixels.clear();
    while (panel < frame_.panels.size() &&
           y >= frame_.panels[panel].map_top + frame_.panels[panel].rows * frame_.square) {
      ++panel;
    }
    if (panel < frame_.panels.size() && y >= frame_.panels[panel].map_top) {
      const HeapMap::Squares& squares = frame_.map.panels()[panel];
      const unsigned inner = y - frame_.panels[panel].map_top;
      const uint64_t skipped = uint64_t{inner / frame_.square} * frame_.columns;
      const uint64_t count = std::min<uint64_t>(frame_.columns, squares.count - skipped);
      const bool is_line = is_marked && (inner + 1) % frame_.square == 0;
      for (unsigned i = 0; i < count && !is_line; ++i) {
        const uint64_t square = squares.first + skipped + i;
        const unsigned x = frame_.map_left + i * frame_.square;
        const std::span<const uint32_t> bytes = bytes_in(square);
        for (unsigned dot = 0; dot < frame_.square; ++dot) {
          if (const auto kind = class_of_dot(bytes, x + dot, y)) {
            pixels.fill(x + dot, 1, InkBox::of_class(*kind));
          }
        }
        if (is_marked && band_.begins_chunk(square)) pixels.fill(x, 1, inks.of(kPaper));
      }
    }
    for (const PictureBox& box : words_.boxes) {
      if (y >= box.y && y - box.y < box.height) pixels.fill(box.x, box.width, inks.of(box.paint));
    }
    for (const PictureText& text : words_.texts) {
      if (y >= text.y && y - text.y < kGlyphHeight) {
        pixels.letters(text, y - text.y, inks.of(text.ink));
      }
    }
    png.add(pixels.pixels());
  }
  png.finish();
}

}  // namespace heapsnap
