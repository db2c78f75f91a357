// The heap as a picture: squares in the colours of what lies in them, with titles, addresses and a
// legend.
//
// As a PNG it is written row by row, and squares are painted band by band, so memory does not grow
// with the heap or with the height of the picture.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "analysis/map_classes.h"
#include "analysis/map_painter.h"
#include "report/map_palette.h"
#include "report/picture_frame.h"
#include "report/picture_words.h"
#include "report/writer.h"

namespace heapsnap {

class HeapPicture {
 public:
  // Fills the band; gives the sums over the whole map.
  using PaintBand = std::function<MapFigures(const HeapMap&, MapBand&)>;

  // `paint` is of `classes`. Paints the first band.
  HeapPicture(PictureFrame frame, const MapClasses& classes, const PictureSubject& subject,
              unsigned most_height, PaintBand paint);

  const PictureFrame& frame() const { return frame_; }
  const PictureWords& words() const { return words_; }
  unsigned height() const { return words_.height; }

  // Throw Error{kOutput}.
  void write_png(Writer& out);
  void write_svg(Writer& out);

 private:
  // Paints the band that it is in, where that is another one.
  void need(uint64_t square);
  std::span<const uint32_t> bytes_in(uint64_t square);

  PictureFrame frame_;
  MapPalette palette_;
  size_t classes_;
  PaintBand paint_;
  MapBand band_;
  MapFigures figures_;
  PictureWords words_;
};

}  // namespace heapsnap
