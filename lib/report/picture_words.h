// The words of a picture of the heap: titles, addresses, and a legend with figures.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/map_painter.h"
#include "report/map_palette.h"
#include "report/picture_frame.h"
#include "snapshot/metadata.h"

namespace heapsnap {

struct PictureText {
  unsigned x = 0;
  unsigned y = 0;    // of the upper edge of its line, bitmap_font.h
  std::string text;  // printable
  bool is_bold = false;
  Paint ink = kDarkInk;
  std::string hint = {};  // more of it, where a format can show that
};
struct PictureBox {
  unsigned x = 0;
  unsigned y = 0;
  unsigned width = 0;
  unsigned height = 0;
  Paint paint;
};

struct PictureSubject {
  const SnapshotMetadata& metadata;
  std::string colors;                   // "by state"
  std::string part;                     // what of the heap: "arena 3"; empty: all
  std::span<const std::string> labels;  // of the classes
};

struct PictureWords {
  std::string title;                 // "Heap of cc1plus (PID 42), by state"
  std::vector<std::string> account;  // a line a class, with the exact number of bytes
  // As the panels: "arena 1, 0x7f0000000000 to 0x7f0000021000: 12.0 KiB in use, 120.0 KiB free"
  std::vector<std::string> panel_hints;
  std::vector<PictureText> texts;
  std::vector<PictureBox> boxes;
  unsigned height = 0;  // of the picture
};

// "arena 2, segment 1 of 3"
std::string panel_name(const MapPanel& panel, const SnapshotMetadata& metadata);

// `most_height`: pixels that the picture may have, or more where its squares need them.
PictureWords picture_words(const PictureFrame& frame, const PictureSubject& subject,
                           const MapPalette& palette, const MapFigures& figures,
                           unsigned most_height);

}  // namespace heapsnap
