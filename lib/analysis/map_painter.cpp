#include "analysis/map_painter.h"

#include <algorithm>
#include <array>
#include <bit>

#include "heap/chunk.h"

namespace heapsnap {

namespace {

class MapPainter final : public ChunkSink {
 public:
  MapPainter(const MapClasses& classes, const HeapMap& map, const PageStates& pages, MapBand& band,
             MapFigures& figures)
      : classes_(classes),
        map_(map),
        pages_(pages),
        band_(band),
        figures_(figures),
        shift_(static_cast<unsigned>(std::countr_zero(map.scale()))) {}

  void on_batch(const ChunkBatch& batch) override {
    Address begin = batch.begin;
    for (size_t i = 0; i < batch.sizes.size(); ++i) {
      const AddressRange range{begin, begin + batch.sizes[i]};
      add_chunk(range, batch.states[i], batch.sizes[i], batch.stacks.empty() ? 0 : batch.stacks[i]);
      begin = range.end;
    }
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    const uint64_t room = UINT64_MAX - chunk.mapping_begin.value();
    add_chunk({chunk.mapping_begin, chunk.mapping_begin + std::min(chunk.total, room)}, chunk.state,
              chunk.total, chunk.stack);
  }

 private:
  void add_chunk(AddressRange range, ChunkState state, uint64_t size, uint32_t stack) {
    state_ = state;
    const uint8_t of_chunk = classes_.of_chunk(state, size, stack, block_);
    if (is_live(state)) ++block_;
    while (range.begin < range.end) {
      if (!piece_range_.contains(range.begin)) find_piece(range.begin);
      const Address end = std::min(range.end, piece_range_.end);
      if (piece_ != nullptr) add_in_piece({range.begin, end}, of_chunk);
      range.begin = end;
    }
  }

  // The piece that holds `address`, or the stretch without any around it.
  void find_piece(Address address) {
    const std::vector<HeapMap::Piece>& pieces = map_.pieces();
    const auto after = std::upper_bound(
        pieces.begin(), pieces.end(), address,
        [](Address a, const HeapMap::Piece& piece) { return a < piece.range.end; });
    piece_ = after != pieces.end() && after->range.contains(address) ? &*after : nullptr;
    if (piece_ != nullptr) {
      piece_range_ = piece_->range;
    } else {
      piece_range_ = {address, after == pieces.end() ? Address(UINT64_MAX) : after->range.begin};
    }
  }

  void add_in_piece(AddressRange range, uint8_t of_chunk) {
    const uint64_t first = map_.square_of(*piece_, range.begin);
    if (band_.contains(first)) band_.begin_chunk(first);
    while (range.begin < range.end) {
      if (!page_.range.contains(range.begin)) page_ = pages_.at(range.begin);
      const Address end = std::min(range.end, std::max(page_.range.end, range.begin + 1));
      if (page_.column != PageStates::kOutside) {
        add_in_page({range.begin, end},
                    classes_.in_page(of_chunk, static_cast<PageState>(page_.column)));
      }
      range.begin = end;
    }
  }

  void add_in_page(AddressRange range, uint8_t of_class) {
    const uint64_t size = range.size();
    figures_.classes[of_class] += size;
    MapFigures::Panel& panel = figures_.panels[piece_->panel];
    if (is_live(state_)) panel.in_use += size;
    if (is_free(state_)) panel.free += size;

    uint64_t offset = piece_->lead + (range.begin - piece_->range.begin);
    const uint64_t first = piece_->first + (offset >> shift_);
    // Most chunks are in one square, or in a few.
    if (const uint64_t last = piece_->first + ((offset + size - 1) >> shift_); first == last) {
      if (band_.contains(first)) band_.add(first, of_class, size);
      return;
    }
    uint64_t left = size;
    uint64_t square = first;
    if (square < band_.first()) {
      const uint64_t skipped =
          std::min(left, ((band_.first() - square) << shift_) - (offset & (map_.scale() - 1)));
      offset += skipped;
      left -= skipped;
      square = piece_->first + (offset >> shift_);
    }
    for (; left > 0 && band_.contains(square); ++square) {
      const uint64_t bytes = std::min(left, map_.scale() - (offset & (map_.scale() - 1)));
      band_.add(square, of_class, bytes);
      offset += bytes;
      left -= bytes;
    }
  }

  const MapClasses& classes_;
  const HeapMap& map_;
  PageStates::Cursor pages_;
  MapBand& band_;
  MapFigures& figures_;
  unsigned shift_;
  uint64_t block_ = 0;
  ChunkState state_ = ChunkState::kUsed;  // of the chunk that is being added
  const HeapMap::Piece* piece_ = nullptr;
  AddressRange piece_range_;
  PageStates::Piece page_;
};

}  // namespace

MapBand::MapBand(const HeapMap& map, size_t classes, uint64_t first, size_t count)
    : classes_(classes),
      first_(first),
      unit_shift_(static_cast<unsigned>(std::max(0, std::countr_zero(map.scale()) - 31))),
      bytes_(count * classes),
      begins_(count) {}

MapFigures paint_band(const SnapshotStreams& streams, const MapClasses& classes, const HeapMap& map,
                      MapBand& band, size_t max_page_runs) {
  MapFigures figures;
  figures.classes.resize(classes.list().size());
  figures.panels.resize(map.panels().size());
  for (Address from;;) {
    const PageStates pages(streams, from, max_page_runs);
    MapPainter painter(classes, map, pages, band, figures);
    streams.read_chunks(painter);
    if (pages.is_last()) return figures;
    from = pages.covered().end;
  }
}

}  // namespace heapsnap
