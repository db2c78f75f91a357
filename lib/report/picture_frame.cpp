#include "report/picture_frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count_text.h"
#include "base/error.h"

namespace heapsnap {

namespace {

using Frame = PictureFrame;

// Sides of squares, the largest first. With the usual width, rows of all of them end alike.
constexpr unsigned kSides[] = {24, 16, 12, 8, 6, 4, 3, 2, 1};
constexpr unsigned kLeastWordsSide = 2;  // smaller ones are a blur
constexpr unsigned kPanelGap = 9;
constexpr unsigned kLeastRuledHeight = 15;  // an address fits beside it
constexpr uint64_t kCoarsestScale = uint64_t{1} << 63;
constexpr uint64_t kTooHigh = UINT64_MAX;

struct Room {
  unsigned map_left = 0;
  unsigned width = 0;   // of the map
  unsigned top = 0;     // of the first panel
  unsigned bottom = 0;  // of the last one, at most
};

Room room_in(const PictureSize& size, bool has_words) {
  if (!has_words) return {0, size.width, 0, size.height};
  const unsigned left = Frame::kMargin + Frame::kRulerWidth;
  return {left, size.width - left - Frame::kLegendGap - Frame::kLegendWidth - Frame::kMargin,
          Frame::kHeadHeight, size.height - Frame::kMargin};
}

size_t most_panels(const PictureSize& size, bool has_words) {
  if (!has_words) return std::clamp<size_t>(size.height / 8, 2, 64);
  // Their titles may take two fifths of the height.
  const unsigned height = size.height - Frame::kHeadHeight - Frame::kMargin;
  return std::max<size_t>(height * 2 / 5 / (Frame::kTitleHeight + kPanelGap), 2);
}

// Places the panels one below the other. Gives one past the last row, or kTooHigh.
uint64_t place_panels(Frame& frame, unsigned top) {
  frame.panels.clear();
  uint64_t y = top;
  for (const HeapMap::Squares& squares : frame.map.panels()) {
    if (y >= Frame::kMostRows || squares.count > uint64_t{1} << 40) return kTooHigh;
    Frame::Panel panel;
    panel.top = static_cast<unsigned>(y);
    if (frame.has_words) {
      if (!frame.panels.empty()) panel.top += kPanelGap;
      y = panel.top + Frame::kTitleHeight;
    }
    panel.map_top = static_cast<unsigned>(y);
    panel.rows = (squares.count + frame.columns - 1) / frame.columns;
    const uint64_t height = panel.rows * frame.square;
    y += frame.has_words ? std::max<uint64_t>(height, kLeastRuledHeight) : height;
    frame.panels.push_back(panel);
  }
  return y;
}

// With the largest squares with which all ends at `bottom` at the latest.
bool fit(Frame& frame, const Room& room, uint64_t bottom, unsigned least_side) {
  for (const unsigned side : kSides) {
    if (side < least_side || side > room.width) continue;
    frame.square = side;
    frame.columns = room.width / side;
    const uint64_t end = place_panels(frame, room.top);
    if (end > bottom) continue;
    frame.map_bottom = static_cast<unsigned>(end);
    return true;
  }
  return false;
}

[[noreturn]] void throw_too_high(const Frame& frame, std::span<const HeapRegion> regions,
                                 const PictureSize& size, uint64_t squares) {
  uint64_t coarser = size.scale;
  HeapMap map;
  do {
    coarser *= 2;
    map = HeapMap(regions, frame.parts, coarser);
  } while (coarser < kCoarsestScale && (map.squares() > Frame::kMostSquares ||
                                        map.squares() / frame.columns > Frame::kMostRows / 2));
  throw Error(ErrorKind::kUsage, fmt::format("--scale {}", size.scale),
              squares == UINT64_MAX ? "the picture would be too high"
                                    : fmt::format("the picture would be {} pixels high",
                                                  count_text(squares / frame.columns)),
              fmt::format("--scale {}, or a part of the heap with --region", coarser));
}

}  // namespace

PictureFrame plan_picture(const HeapModel& heap, std::span<const HeapRegion> regions,
                          const PictureSize& size) {
  if (regions.empty()) {
    throw Error(ErrorKind::kOutput, "cannot make the picture", "the heap has no chunks");
  }
  Frame frame;
  frame.width = size.width;
  frame.has_words =
      size.width >= Frame::kLeastWordsWidth && size.height >= Frame::kLeastWordsHeight;
  frame.parts = map_panels(heap, regions, most_panels(size, frame.has_words));
  const Room room = room_in(size, frame.has_words);
  frame.map_left = room.map_left;
  if (size.scale != 0) {
    frame.map = HeapMap(regions, frame.parts, size.scale);
    if (fit(frame, room, room.bottom, size.least_square)) return frame;
    frame.square = std::min(size.least_square, room.width);
    frame.columns = room.width / frame.square;
    const uint64_t squares = frame.map.squares();
    const uint64_t end = squares > Frame::kMostSquares ? kTooHigh : place_panels(frame, room.top);
    if (end > Frame::kMostRows) throw_too_high(frame, regions, size, squares);
    frame.map_bottom = static_cast<unsigned>(end);
    return frame;
  }
  const unsigned least_side = std::max(size.least_square, frame.has_words ? kLeastWordsSide : 1U);
  for (uint64_t scale = HeapMap::kFinestScale;; scale *= 2) {
    frame.map = HeapMap(regions, frame.parts, scale);
    if (fit(frame, room, room.bottom, std::min(least_side, room.width)) ||
        scale == kCoarsestScale) {
      return frame;
    }
  }
}

}  // namespace heapsnap
