#include "report/history_picture.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "report/number_text.h"

namespace heapsnap {

namespace {

using Paint = std::array<png_byte, 3>;

constexpr Paint kFrame{0x40, 0x40, 0x40};
constexpr Paint kGridLine{0xe4, 0xe4, 0xe4};
constexpr Paint kDotOfRun[2] = {{0xd0, 0x18, 0x18}, {0x80, 0x10, 0x40}};
constexpr Paint kFitLine{0x00, 0x00, 0x00};
constexpr Paint kRestartBar{0x90, 0x90, 0x90};
constexpr Paint kUpgradeBar{0x20, 0x50, 0xd0};
constexpr Paint kLimitLine{0xe0, 0x80, 0x00};

// Figures of 3 by 5 pixels, a row three bits, the leftmost highest; drawn twice as large.
struct Glyph {
  char character;
  std::array<uint8_t, 5> rows;
};
constexpr Glyph kGlyphs[] = {
    {'0', {7, 5, 5, 5, 7}}, {'1', {2, 6, 2, 2, 7}}, {'2', {7, 1, 7, 4, 7}}, {'3', {7, 1, 7, 1, 7}},
    {'4', {5, 5, 7, 1, 1}}, {'5', {7, 4, 7, 1, 7}}, {'6', {7, 4, 7, 5, 7}}, {'7', {7, 1, 1, 2, 2}},
    {'8', {7, 5, 7, 5, 7}}, {'9', {7, 5, 7, 1, 7}}, {'.', {0, 0, 0, 0, 2}}, {'-', {0, 0, 7, 0, 0}},
    {':', {0, 2, 0, 2, 0}}, {'K', {5, 5, 6, 5, 5}}, {'M', {5, 7, 7, 5, 5}}, {'G', {7, 4, 5, 5, 7}},
    {'T', {7, 2, 2, 2, 2}}, {'B', {6, 5, 6, 5, 6}}, {'Z', {7, 1, 2, 4, 7}}, {'i', {2, 0, 2, 2, 2}},
};
constexpr int kGlyphScale = 2;
constexpr int kGlyphStep = 4 * kGlyphScale;
constexpr int kMargin = 8;
constexpr int kTextHeight = 5 * kGlyphScale;

class Canvas {
 public:
  Canvas(unsigned width, unsigned height)
      : width_(static_cast<int>(width)),
        height_(static_cast<int>(height)),
        bytes_(size_t{width} * height * 3, 0xff) {}

  int width() const { return width_; }
  int height() const { return height_; }

  void dot(int x, int y, const Paint& paint) {
    if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
    std::copy(paint.begin(), paint.end(),
              bytes_.begin() + (static_cast<ptrdiff_t>(y) * width_ + x) * 3);
  }
  void square(int x, int y, int radius, const Paint& paint) {
    for (int dy = -radius; dy <= radius; ++dy) {
      for (int dx = -radius; dx <= radius; ++dx) dot(x + dx, y + dy, paint);
    }
  }
  void line(double x0, double y0, double x1, double y1, const Paint& paint) {
    const double steps = std::ceil(std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1.0}));
    for (double step = 0; step <= steps; ++step) {
      const double share = step / steps;
      dot(static_cast<int>(std::lround(x0 + (x1 - x0) * share)),
          static_cast<int>(std::lround(y0 + (y1 - y0) * share)), paint);
    }
  }
  void text(int x, int y, std::string_view words) {
    for (const char character : words) {
      const auto* const glyph =
          std::find_if(std::begin(kGlyphs), std::end(kGlyphs),
                       [&](const Glyph& each) { return each.character == character; });
      if (glyph != std::end(kGlyphs)) draw(x, y, *glyph);
      x += kGlyphStep;
    }
  }

  std::string png() const {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = static_cast<png_uint_32>(width_);
    image.height = static_cast<png_uint_32>(height_);
    image.format = PNG_FORMAT_RGB;
    std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
    png_alloc_size_t size = file.size();
    if (png_image_write_to_memory(&image, file.data(), &size, 0, bytes_.data(), 0, nullptr) == 0) {
      throw Error(ErrorKind::kOutput, "cannot make the picture", image.message);
    }
    file.resize(size);
    return file;
  }

 private:
  void draw(int x, int y, const Glyph& glyph) {
    for (int row = 0; row < 5; ++row) {
      for (int column = 0; column < 3; ++column) {
        if ((glyph.rows[static_cast<size_t>(row)] & (4 >> column)) == 0) continue;
        for (int i = 0; i < kGlyphScale * kGlyphScale; ++i) {
          dot(x + column * kGlyphScale + i % kGlyphScale, y + row * kGlyphScale + i / kGlyphScale,
              kFrame);
        }
      }
    }
  }

  int width_;
  int height_;
  std::vector<png_byte> bytes_;
};

class HistoryPicture {
 public:
  HistoryPicture(const GrowthHistory& history, unsigned width, unsigned height)
      : history_(history),
        canvas_(width, height),
        right_(canvas_.width() - kMargin),
        bottom_(canvas_.height() - 2 * kMargin - kTextHeight),
        first_s_(seconds(history.points.front().time_ns)),
        last_s_(std::max(seconds(history.points.back().time_ns), first_s_ + 1)) {
    for (const auto& value : history.resident().values) top_value_ = std::max(top_value_, *value);
    // A limit far above would press all that was measured into one line.
    if (history.forecast && history.forecast->level < 2 * top_value_) {
      top_value_ = std::max(top_value_, history.forecast->level);
    }
    top_value_ *= 1.05;
    left_ = 2 * kMargin + kGlyphStep * static_cast<int>(scale_text().size());
  }

  std::string draw() {
    draw_frame();
    draw_runs();
    draw_fit();
    draw_points();
    return canvas_.png();
  }

 private:
  static double seconds(int64_t time_ns) { return static_cast<double>(time_ns) / 1e9; }
  std::string scale_text() const { return short_size_text(static_cast<uint64_t>(top_value_)); }

  double x_of(double time_s) const {
    return left_ + (time_s - first_s_) / (last_s_ - first_s_) * (right_ - left_);
  }
  double y_of(double value) const {
    return bottom_ - value / std::max(top_value_, 1.0) * (bottom_ - kMargin);
  }

  void draw_frame() {
    for (int quarter = 1; quarter < 4; ++quarter) {
      const double y = y_of(top_value_ * quarter / 4);
      canvas_.line(left_, y, right_, y, kGridLine);
    }
    canvas_.line(left_, kMargin, left_, bottom_, kFrame);
    canvas_.line(left_, bottom_, right_, bottom_, kFrame);
    canvas_.text(kMargin, kMargin, scale_text());
    canvas_.text(kMargin, bottom_ - kTextHeight, "0");
    // "2026-01-31T23:59Z"
    const auto date = [](int64_t time_ns) { return time_text(time_ns, 1).substr(0, 16) + "Z"; };
    const int y = bottom_ + kMargin;
    canvas_.text(left_, y, date(history_.points.front().time_ns));
    const std::string last = date(history_.points.back().time_ns);
    canvas_.text(right_ - kGlyphStep * static_cast<int>(last.size()), y, last);
  }

  void draw_runs() {
    for (size_t i = 1; i < history_.points.size(); ++i) {
      const HistoryPoint& point = history_.points[i];
      if (point.run == history_.points[i - 1].run) continue;
      const bool is_upgrade = history_.runs[point.run].begin == RunBegin::kUpgrade;
      const double x = x_of(seconds(point.time_ns));
      canvas_.line(x, kMargin, x, bottom_, is_upgrade ? kUpgradeBar : kRestartBar);
    }
    if (history_.forecast && history_.forecast->level <= top_value_) {
      const double y = y_of(history_.forecast->level);
      canvas_.line(left_, y, right_, y, kLimitLine);
    }
  }

  // Within the last run, of which the fit has the offset.
  void draw_fit() {
    const auto& slope = history_.resident().slope;
    if (!slope) return;
    const size_t run = history_.points.back().run;
    const auto begin = std::find_if(history_.points.begin(), history_.points.end(),
                                    [&](const HistoryPoint& point) { return point.run == run; });
    const double from = seconds(begin->time_ns);
    const auto value = [&](double time_s) {
      return std::clamp(slope->offset + time_s * slope->per_second, 0.0, top_value_);
    };
    canvas_.line(x_of(from), y_of(value(from)), x_of(last_s_), y_of(value(last_s_)), kFitLine);
  }

  void draw_points() {
    for (size_t i = 0; i < history_.points.size(); ++i) {
      const HistoryPoint& point = history_.points[i];
      canvas_.square(static_cast<int>(std::lround(x_of(seconds(point.time_ns)))),
                     static_cast<int>(std::lround(y_of(*history_.resident().values[i]))), 1,
                     kDotOfRun[point.run % 2]);
    }
  }

  const GrowthHistory& history_;
  Canvas canvas_;
  int left_ = 0;
  int right_;
  int bottom_;
  double first_s_;
  double last_s_;
  double top_value_ = 1;
};

}  // namespace

void write_history_picture(const GrowthHistory& history, unsigned width, unsigned height,
                           Writer& out) {
  out.write(HistoryPicture(history, width, height).draw());
}

}  // namespace heapsnap
