// Where everything is in a picture of the heap, in pixels.
//
//   +------------------------------------------------------+
//   | title, what it is of                                 |
//   | arena 1, figures                      | legend       |
//   | 0x7f…  [][][][][][][][][][][][][][][] | □ in use     |
//   |        [][][][][]                     |   12.3 MiB   |
//   | 7 mmapped chunks, figures             | □ free       |
//   | 0x7f…  [][][][][][][]                 |   4.5 MiB    |
//   +------------------------------------------------------+
//
// A picture that is too small for words has the squares only. An overview has the finest scale with
// which all fits into the size that was asked for; with a scale of its own, a picture is as high as
// it takes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/heap_map.h"
#include "analysis/heap_regions.h"
#include "analysis/map_panels.h"

namespace heapsnap {

struct PictureSize {
  unsigned width = 0;         // pixels, from 1 on
  unsigned height = 0;        // at most, from kLeastHeight on
  uint64_t scale = 0;         // bytes a square, a power of two from 16 on; 0: the finest that fits
  unsigned least_square = 1;  // pixels of its side
};

struct PictureFrame {
  static constexpr unsigned kLeastHeight = 16;
  // What a picture with words needs.
  static constexpr unsigned kLeastWordsWidth = 800;
  static constexpr unsigned kLeastWordsHeight = 560;

  static constexpr unsigned kMargin = 16;
  static constexpr unsigned kHeadHeight = 64;
  static constexpr unsigned kTitleHeight = 19;
  static constexpr unsigned kRulerWidth = 144;  // 0x7f0123456789 and a tick
  static constexpr unsigned kLegendWidth = 316;
  static constexpr unsigned kLegendGap = 20;

  // With a scale of its own, at most.
  static constexpr uint64_t kMostSquares = uint64_t{1} << 25;
  static constexpr uint64_t kMostRows = 60000;

  struct Panel {
    unsigned top = 0;  // of its title, where there are words
    unsigned map_top = 0;
    uint64_t rows = 0;
  };

  bool has_words = false;
  unsigned width = 0;
  unsigned map_left = 0;
  unsigned map_bottom = 0;  // one past the last row
  unsigned square = 1;      // pixels of its side
  unsigned columns = 1;     // squares a row
  MapPanels parts;
  HeapMap map;
  std::vector<Panel> panels;  // as parts.panels

  unsigned legend_left() const { return width - kMargin - kLegendWidth; }
};

// Throws Error{kUsage} when a picture of that scale would be too high, Error{kOutput} when there
// are no regions.
PictureFrame plan_picture(const HeapModel& heap, std::span<const HeapRegion> regions,
                          const PictureSize& size);

}  // namespace heapsnap
