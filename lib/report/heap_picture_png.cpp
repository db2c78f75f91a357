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

// One row of pixels.
class PixelRow {
 public:
  explicit PixelRow(unsigned width) : bytes_(size_t{width} * 3) {}

  std::span<const uint8_t> bytes() const { return bytes_; }
  void clear() { std::fill(bytes_.begin(), bytes_.end(), uint8_t{0xff}); }
  void fill(unsigned x, unsigned width, const Paint& paint) {
    const size_t end = std::min(bytes_.size(), (size_t{x} + width) * 3);
    for (size_t i = size_t{x} * 3; i < end; i += 3) {
      bytes_[i] = paint.red;
      bytes_[i + 1] = paint.green;
      bytes_[i + 2] = paint.blue;
    }
  }
  // Row `y` of the letters of `text`.
  void letters(const PictureText& text, unsigned y) {
    unsigned x = text.x;
    for (std::string_view left = text.text; !left.empty(); x += kGlyphWidth) {
      const uint16_t row = glyph_rows(take_utf8(left).value_or(U'\ufffd'))[y];
      const unsigned bits = text.is_bold ? row | row >> 1U : row;
      for (unsigned i = 0; i < kGlyphWidth; ++i) {
        if ((bits >> (kGlyphWidth - 1 - i) & 1U) != 0) fill(x + i, 1, text.ink);
      }
    }
  }

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace

void HeapPicture::write_png(Writer& out) {
  std::string account;
  for (const std::string& line : words_.account) account += line + "\n";
  PngRows png(frame_.width, words_.height,
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
        pixels.fill(x, frame_.square, paint_of(square));
        if (is_marked && band_.begins_chunk(square)) pixels.fill(x, 1, kPaper);
      }
    }
    for (const PictureBox& box : words_.boxes) {
      if (y >= box.y && y - box.y < box.height) pixels.fill(box.x, box.width, box.paint);
    }
    for (const PictureText& text : words_.texts) {
      if (y >= text.y && y - text.y < kGlyphHeight) pixels.letters(text, y - text.y);
    }
    png.add(pixels.bytes());
  }
  png.finish();
}

}  // namespace heapsnap
