#include "report/heap_picture.h"

#include <algorithm>
#include <utility>

namespace heapsnap {

namespace {

MapBand band_from(const HeapMap& map, size_t classes, uint64_t first) {
  const uint64_t left = map.squares() - first;
  return {map, classes, first, std::min<uint64_t>(left, MapBand::kMostSquares)};
}

}  // namespace

HeapPicture::HeapPicture(PictureFrame frame, const MapClasses& classes,
                         const PictureSubject& subject, unsigned most_height, PaintBand paint)
    : frame_(std::move(frame)),
      palette_(classes.list()),
      classes_(classes.list().size()),
      paint_(std::move(paint)),
      band_(band_from(frame_.map, classes_, 0)),
      figures_(paint_(frame_.map, band_)),
      words_(picture_words(frame_, subject, palette_, figures_, most_height)) {}

void HeapPicture::need(uint64_t square) {
  if (band_.contains(square)) return;
  band_ = MapBand(frame_.map, classes_, 0, 0);  // gives its memory back first
  band_ = band_from(frame_.map, classes_, square);
  paint_(frame_.map, band_);
}

std::span<const uint32_t> HeapPicture::bytes_in(uint64_t square) {
  need(square);
  return band_.bytes_in(square);
}

}  // namespace heapsnap
