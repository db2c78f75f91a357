#include "report/picture_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/count_text.h"
#include "report/bitmap_font.h"
#include "report/number_text.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

using Frame = PictureFrame;

constexpr unsigned kLine = 18;
constexpr unsigned kSwatch = 14;
constexpr unsigned kLegendStep = 2 * kLine + 5;
constexpr unsigned kLegendTextLeft = kSwatch + 10;
constexpr unsigned kRulerStep = 45;  // from one address to the next, at least
constexpr unsigned kTick = 5;
constexpr size_t kLegendColumns = Frame::kLegendWidth / kGlyphWidth;

unsigned text_width(const std::string& text) {
  return static_cast<unsigned>(display_width(text)) * kGlyphWidth;
}

// "2 KiB": without a fraction where there is none.
std::string scale_text(uint64_t bytes) {
  std::string text = size_text(bytes);
  if (const size_t fraction = text.find(".0 "); fraction != std::string::npos) {
    text.erase(fraction, 2);
  }
  return text;
}

std::string parts_text(const MapPanels& parts) {
  uint64_t arenas = 0;
  uint64_t mmapped = 0;
  int32_t last = -1;
  for (const MapPanel& panel : parts.panels) {
    if (panel.kind == MapPanel::Kind::kMmapped) {
      mmapped += panel.count;
    } else if (panel.kind == MapPanel::Kind::kOtherArenas) {
      arenas += panel.count;
    } else if (panel.arena != last) {
      ++arenas;
      last = panel.arena;
    }
  }
  std::string text = arenas == 0 ? "" : count_text(arenas, "arena", "arenas");
  if (mmapped != 0) {
    if (arenas != 0) text += " and ";
    text += count_text(mmapped, "mmapped chunk", "mmapped chunks");
  }
  return text;
}

class WordPlacer {
 public:
  WordPlacer(const Frame& frame, const PictureSubject& subject, const MapPalette& palette,
             const MapFigures& figures, unsigned most_height)
      : frame_(frame),
        subject_(subject),
        palette_(palette),
        figures_(figures),
        bytes_(std::accumulate(figures.classes.begin(), figures.classes.end(), uint64_t{0})),
        bottom_(std::max(most_height - std::min(most_height, Frame::kMargin), frame.map_bottom)) {}

  PictureWords place() && {
    const Process& process = subject_.metadata.process;
    words_.title =
        fmt::format("Heap of {} (PID {}){}, {}", printable(process.comm), process.pid,
                    subject_.part.empty() ? "" : ": " + printable(subject_.part), subject_.colors);
    for (size_t i = 0; i < figures_.classes.size(); ++i) {
      if (figures_.classes[i] == 0) continue;
      words_.account.push_back(fmt::format("{}: {}", subject_.labels[i],
                                           count_text(figures_.classes[i], "byte", "bytes")));
    }
    words_.account.push_back(fmt::format("total: {}", count_text(bytes_, "byte", "bytes")));
    for (size_t i = 0; i < frame_.panels.size(); ++i) {
      const MapPanel& panel = frame_.parts.panels[i];
      words_.panel_hints.push_back(
          fmt::format("{}, {} to {}: {} in use, {} free", panel_name(panel, subject_.metadata),
                      address_text(panel.range.begin), address_text(panel.range.end),
                      size_text(figures_.panels[i].in_use), size_text(figures_.panels[i].free)));
    }
    words_.height = frame_.map_bottom;
    if (!frame_.has_words) return std::move(words_);
    place_head();
    for (size_t i = 0; i < frame_.panels.size(); ++i) place_panel(i);
    const unsigned legend_bottom = place_legend();
    words_.height = std::max(frame_.map_bottom, legend_bottom) + Frame::kMargin;
    return std::move(words_);
  }

 private:
  // Cut to what fits between x and `right`.
  void say(unsigned x, unsigned y, unsigned right, const std::string& text, bool is_bold = false,
           const Paint& ink = kDarkInk, std::string hint = {}) {
    if (right < x + kGlyphWidth) return;
    words_.texts.push_back(
        {x, y, clipped(text, (right - x) / kGlyphWidth), is_bold, ink, std::move(hint)});
  }

  void place_head() {
    const SnapshotMetadata& metadata = subject_.metadata;
    const unsigned right = frame_.width - Frame::kMargin;
    say(Frame::kMargin, 13, right, words_.title, true);
    std::string line = fmt::format("{} in {}", size_text(bytes_), parts_text(frame_.parts));
    if (metadata.process.taken_at_ns != 0) {
      line += ", " + time_text(metadata.process.taken_at_ns, 1).substr(0, 19) + "Z";
    }
    if (!metadata.process.hostname.empty()) line += " on " + printable(metadata.process.hostname);
    say(Frame::kMargin, 33, right, line, false, kPaleInk);
  }

  void place_panel(size_t index) {
    const Frame::Panel& place = frame_.panels[index];
    const MapPanel& panel = frame_.parts.panels[index];
    const MapFigures::Panel& figures = figures_.panels[index];
    const unsigned right = frame_.legend_left() - Frame::kLegendGap / 2;
    const std::string name = panel_name(panel, subject_.metadata);
    say(frame_.map_left, place.top, right, name, true);
    std::string text = size_text(panel.bytes);
    if (panel.kind == MapPanel::Kind::kMmapped && figures.free == 0) {
      text += " in use";
    } else {
      text += fmt::format(": {} in use ({}), {} free", size_text(figures.in_use),
                          percent_text(figures.in_use, panel.bytes), size_text(figures.free));
    }
    say(frame_.map_left + text_width(name) + 2 * kGlyphWidth, place.top, right, text, false,
        kPaleInk);
    place_ruler(index);
  }

  // An address beside a row is that of its first square.
  void place_ruler(size_t index) {
    const Frame::Panel& place = frame_.panels[index];
    const HeapMap::Squares& squares = frame_.map.panels()[index];
    const uint64_t step = std::max<uint64_t>(kRulerStep / frame_.square, 1);
    for (uint64_t row = 0; row < place.rows; row += step) {
      const uint64_t square = squares.first + row * frame_.columns;
      std::optional<Address> address = frame_.map.address_of(square);
      // A gap at the row's begin: the region begins right behind it.
      if (!address) address = frame_.map.address_of(square + 1);
      if (!address) continue;
      const std::string text = address_text(*address);
      const unsigned y = place.map_top + static_cast<unsigned>(row) * frame_.square;
      const unsigned x = frame_.map_left - kTick - 4;
      words_.boxes.push_back({frame_.map_left - kTick - 1, y, kTick, 1, kPaleInk});
      say(x - std::min(x, text_width(text)), y > 2 ? y - 2 : 0, x, text, false, kPaleInk);
    }
  }

  // Gives where it ends.
  unsigned place_legend() {
    const unsigned left = frame_.legend_left();
    const unsigned right = frame_.width - Frame::kMargin;
    unsigned y = Frame::kHeadHeight;
    for (size_t i = 0; i < figures_.classes.size(); ++i) {
      if (figures_.classes[i] == 0 || y + kLegendStep > bottom_) continue;
      words_.boxes.push_back({left, y + 1, kSwatch, kSwatch, kPaleInk});
      words_.boxes.push_back({left + 1, y + 2, kSwatch - 2, kSwatch - 2, palette_.of_class(i)});
      say(left + kLegendTextLeft, y, right, subject_.labels[i], false, kDarkInk,
          count_text(figures_.classes[i], "byte", "bytes"));
      say(left + kLegendTextLeft, y + kLine - 2, right,
          fmt::format("{:>10}  {:>7}", size_text(figures_.classes[i]),
                      percent_text(figures_.classes[i], bytes_)),
          false, kPaleInk);
      y += kLegendStep;
    }
    say(left + kLegendTextLeft, y, right, fmt::format("{:>10}  total", size_text(bytes_)), true,
        kDarkInk, count_text(bytes_, "byte", "bytes"));
    y += kLine + 10;
    for (const std::string& sentence : how_to_read()) {
      const std::vector<std::string> lines = wrapped(sentence, kLegendColumns);
      if (y + lines.size() * kLine > bottom_) break;
      for (const std::string& line : lines) {
        say(left, y, right, line, false, kPaleInk);
        y += kLine;
      }
      y += 5;
    }
    return y;
  }

  std::vector<std::string> how_to_read() const {
    const uint64_t scale = frame_.map.scale();
    std::vector<std::string> sentences{
        fmt::format("Each square is {}, each row {}.", scale_text(scale),
                    scale_text(scale * frame_.columns)),
        "Addresses rise to the right, then row by row.",
        "Dots of several colours: each has its share of the memory there.",
    };
    if (frame_.parts.panels.size() < frame_.map.pieces().size()) {
      sentences.emplace_back("White gaps part what does not adjoin.");
    }
    return sentences;
  }

  const Frame& frame_;
  const PictureSubject& subject_;
  const MapPalette& palette_;
  const MapFigures& figures_;
  uint64_t bytes_;
  unsigned bottom_;
  PictureWords words_;
};

}  // namespace

std::string panel_name(const MapPanel& panel, const SnapshotMetadata& metadata) {
  switch (panel.kind) {
    case MapPanel::Kind::kMmapped:
      return count_text(panel.count, "mmapped chunk", "mmapped chunks");
    case MapPanel::Kind::kOtherArenas:
      return count_text(panel.count, "other arena", "other arenas");
    case MapPanel::Kind::kSegment:
    case MapPanel::Kind::kArena: break;
  }
  const bool is_main = metadata.heap.arenas[static_cast<size_t>(panel.arena)].is_main;
  std::string name = is_main ? std::string("main arena") : fmt::format("arena {}", panel.arena);
  if (is_main && panel.arena != 0) name += fmt::format(" ({})", panel.arena);
  if (panel.kind == MapPanel::Kind::kArena) {
    if (panel.count > 1) name += fmt::format(", {} segments", count_text(panel.count));
  } else if (panel.segments > 1) {
    name += fmt::format(", segment {} of {}", panel.segment, count_text(panel.segments));
  }
  return name;
}

PictureWords picture_words(const PictureFrame& frame, const PictureSubject& subject,
                           const MapPalette& palette, const MapFigures& figures,
                           unsigned most_height) {
  return WordPlacer(frame, subject, palette, figures, most_height).place();
}

}  // namespace heapsnap
