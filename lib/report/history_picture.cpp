#include "report/history_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/bitmap_font.h"
#include "report/growth_text.h"
#include "report/map_palette.h"
#include "report/number_text.h"
#include "report/png_rows.h"
#include "report/terminal_text.h"
#include "report/utf8.h"

namespace heapsnap {

namespace {

// In the order of kPenPaints. The hues are Okabe and Ito's.
enum class Pen : uint8_t {
  kPaper,
  kGrid,
  kFrame,
  kRun,
  kOtherRun,
  kFit,
  kRestart,
  kUpgrade,
  kLimit
};
constexpr std::array kPenPaints = {
    kPaper,
    Paint{0xe4, 0xe4, 0xe4},
    kPaleInk,
    Paint{0x00, 0x72, 0xb2},
    Paint{0x00, 0x9e, 0x73},
    kDarkInk,
    Paint{0x77, 0x77, 0x77},
    Paint{0xcc, 0x79, 0xa7},
    Paint{0xd5, 0x5e, 0x00},
};

constexpr int kPictureMargin = 8;
constexpr int kLineHeight = kGlyphHeight + 4;

int text_width(std::string_view text) {
  return kGlyphWidth * static_cast<int>(display_width(text));
}

class HistoryCanvas {
 public:
  HistoryCanvas(unsigned width, unsigned height)
      : width_(static_cast<int>(width)),
        height_(static_cast<int>(height)),
        dots_(size_t{width} * height) {}

  int width() const { return width_; }
  int height() const { return height_; }

  void dot(int x, int y, Pen pen) {
    if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
    dots_[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)] =
        static_cast<uint8_t>(pen);
  }
  void square(int x, int y, int radius, Pen pen) {
    for (int dy = -radius; dy <= radius; ++dy) {
      for (int dx = -radius; dx <= radius; ++dx) dot(x + dx, y + dy, pen);
    }
  }
  void line(double x0, double y0, double x1, double y1, Pen pen) {
    const double steps = std::ceil(std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1.0}));
    for (double step = 0; step <= steps; ++step) {
      const double share = step / steps;
      dot(static_cast<int>(std::lround(x0 + (x1 - x0) * share)),
          static_cast<int>(std::lround(y0 + (y1 - y0) * share)), pen);
    }
  }
  // (x, y) is its upper left corner.
  void text(int x, int y, std::string_view words, Pen pen = Pen::kFrame) {
    for (std::string_view left = words; !left.empty(); x += kGlyphWidth) {
      const GlyphRows rows = glyph_rows(take_utf8(left).value_or(U'\ufffd'));
      for (int row = 0; row < kGlyphHeight; ++row) {
        for (int i = 0; i < kGlyphWidth; ++i) {
          if ((rows[static_cast<size_t>(row)] >> (kGlyphWidth - 1 - i) & 1) != 0) {
            dot(x + i, y + row, pen);
          }
        }
      }
    }
  }

  void write(const PngRows::Texts& texts, Writer& out) const {
    const auto width = static_cast<size_t>(width_);
    PngRows png(static_cast<unsigned>(width_), static_cast<unsigned>(height_), kPenPaints, texts,
                out);
    for (size_t begin = 0; begin < dots_.size(); begin += width) {
      png.add(std::span(dots_).subspan(begin, width));
    }
    png.finish();
  }

 private:
  int width_;
  int height_;
  std::vector<uint8_t> dots_;  // numbers of kPenPaints, row by row
};

class HistoryPicture {
 public:
  HistoryPicture(const NamedHistory& named, unsigned width, unsigned height)
      : history_(named.history),
        title_(fmt::format("Resident memory of {} ({} on {})", printable(named.name),
                           printable(named.history.comm), printable(named.history.host))),
        canvas_(width, height),
        right_(canvas_.width() - kPictureMargin),
        bottom_(canvas_.height() - kPictureMargin - kLineHeight),
        first_s_(seconds(history_.points.front().time_ns)),
        last_s_(std::max(seconds(history_.points.back().time_ns), first_s_ + 1)) {
    for (const auto& value : history_.resident().values) top_value_ = std::max(top_value_, *value);
    // A limit far above would press all that was measured into one line.
    if (history_.forecast && history_.forecast->level < 2 * top_value_) {
      top_value_ = std::max(top_value_, history_.forecast->level);
    }
    top_value_ *= 1.05;
    left_ = 2 * kPictureMargin + text_width(scale_text());
  }

  void write(Writer& out) {
    canvas_.text(kPictureMargin, kPictureMargin, title_, Pen::kFit);
    draw_frame();
    draw_runs();
    draw_fit();
    draw_points();
    canvas_.write({{"Title", title_}, {"Software", "heapsnap"}}, out);
  }

 private:
  static constexpr int kTop = kPictureMargin + 2 * kLineHeight;  // below the title and the legend

  static double seconds(int64_t time_ns) { return static_cast<double>(time_ns) / 1e9; }
  // "2026-01-31T23:59Z"
  static std::string date(int64_t time_ns) { return time_text(time_ns, 1).substr(0, 16) + "Z"; }
  std::string scale_text() const { return short_size_text(static_cast<uint64_t>(top_value_)); }

  double x_of(double time_s) const {
    return left_ + (time_s - first_s_) / (last_s_ - first_s_) * (right_ - left_);
  }
  double y_of(double value) const {
    return bottom_ - value / std::max(top_value_, 1.0) * (bottom_ - kTop);
  }

  // The next entry of the legend, in the colour of what it explains.
  void explain(std::string_view what, Pen pen) {
    canvas_.text(legend_x_, kPictureMargin + kLineHeight, what, pen);
    legend_x_ += text_width(what) + 2 * kGlyphWidth;
  }

  void draw_frame() {
    for (int quarter = 1; quarter < 4; ++quarter) {
      const double y = y_of(top_value_ * quarter / 4);
      canvas_.line(left_, y, right_, y, Pen::kGrid);
    }
    canvas_.line(left_, kTop, left_, bottom_, Pen::kFrame);
    canvas_.line(left_, bottom_, right_, bottom_, Pen::kFrame);
    canvas_.text(kPictureMargin, kTop, scale_text());
    canvas_.text(left_ - kPictureMargin - kGlyphWidth, bottom_ - kGlyphHeight, "0");
    const int y = bottom_ + kPictureMargin / 2;
    const std::string first = date(history_.points.front().time_ns);
    const std::string last = date(history_.points.back().time_ns);
    canvas_.text(left_, y, first);
    const int last_x = right_ - text_width(last);
    if (last_x > left_ + text_width(first)) canvas_.text(last_x, y, last);
  }

  void draw_runs() {
    for (size_t i = 1; i < history_.points.size(); ++i) {
      const HistoryPoint& point = history_.points[i];
      if (point.run == history_.points[i - 1].run) continue;
      const bool is_upgrade = history_.runs[point.run].begin == RunBegin::kUpgrade;
      const double x = x_of(seconds(point.time_ns));
      canvas_.line(x, kTop, x, bottom_, is_upgrade ? Pen::kUpgrade : Pen::kRestart);
    }
    if (history_.restarts != 0) explain("restart", Pen::kRestart);
    if (history_.upgrades != 0) explain("upgrade", Pen::kUpgrade);
    if (history_.forecast && history_.forecast->level <= top_value_) {
      const double y = y_of(history_.forecast->level);
      canvas_.line(left_, y, right_, y, Pen::kLimit);
      explain(printable(history_.forecast->limit), Pen::kLimit);
    }
  }

  // Within the last run, of which the fit has the offset.
  void draw_fit() {
    const auto& slope = history_.resident().slope;
    if (!slope) return;
    const size_t run = history_.points.back().run;
    const auto begin = std::find_if(history_.points.begin(), history_.points.end(),
                                    [&](const HistoryPoint& point) { return point.run == run; });
    draw_clipped(*slope, seconds(begin->time_ns), last_s_);
    const RateUnit unit = rate_unit(history_.observed.seconds);
    explain(fmt::format("{} {}", short_change_text(slope->per_second * unit.seconds), unit.per),
            Pen::kFit);
  }

  // As far as the line is within the frame.
  void draw_clipped(const Slope& slope, double from, double to) {
    const auto value = [&](double time_s) { return slope.offset + time_s * slope.per_second; };
    if (slope.per_second != 0) {
      const auto time_of = [&](double at) { return (at - slope.offset) / slope.per_second; };
      const auto [enters, leaves] = std::minmax({time_of(0), time_of(top_value_)});
      from = std::max(from, enters);
      to = std::min(to, leaves);
    } else if (value(from) > top_value_) {
      return;
    }
    if (from < to)
      canvas_.line(x_of(from), y_of(value(from)), x_of(to), y_of(value(to)), Pen::kFit);
  }

  void draw_points() {
    for (size_t i = 0; i < history_.points.size(); ++i) {
      const HistoryPoint& point = history_.points[i];
      canvas_.square(static_cast<int>(std::lround(x_of(seconds(point.time_ns)))),
                     static_cast<int>(std::lround(y_of(*history_.resident().values[i]))), 1,
                     point.run % 2 == 0 ? Pen::kRun : Pen::kOtherRun);
    }
  }

  const GrowthHistory& history_;
  std::string title_;
  HistoryCanvas canvas_;
  int left_ = 0;
  int right_;
  int bottom_;
  int legend_x_ = kPictureMargin;
  double first_s_;
  double last_s_;
  double top_value_ = 1;
};

}  // namespace

void write_history_picture(const NamedHistory& history, unsigned width, unsigned height,
                           Writer& out) {
  HistoryPicture(history, width, height).write(out);
}

}  // namespace heapsnap
