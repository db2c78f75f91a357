// Which block an address lies in: built from a walk, asked for millions of words.
//
// Chunks of heap segments are bits, one for each place where a chunk can begin:
//
//   memory   | used     | free          | used | used |      16 bytes a place (i386: 8)
//   live     |1 . . . . . . . . . . . . 1 . . .1 . . .|      a block begins here
//   other    |. . . . . 1 . . . . . . . . . . .. . . .|      something else does
//   rank     |0                  ...      |3  ...     |      blocks before each 64 places
//
// The last bit at or before an address says whose it is; the live bits before that one give the
// block's number. That takes 24 bytes for each KiB of small chunks. Large chunks and mmapped ones
// are ranges in a sorted list. Used slots of language runtimes are blocks, too, behind those of
// malloc (slot_map.h).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/count_bits.h"
#include "base/large_memory.h"
#include "heap/chunk.h"
#include "references/reference.h"
#include "references/slot_map.h"
#include "target/process.h"

namespace heapsnap {

class BlockMap final : public ChunkSink {
  struct Cell;
  struct Span;

 public:
  struct Place {
    BlockNumber block = kNoBlock;  // kNoBlock: in none
    uint64_t offset = 0;           // of the address in the block
  };
  // Where a caller found its last address; each caller (thread) keeps its own.
  struct Hint {
    const Span* span = nullptr;
  };

  // `most_bytes`: of memory for all of it; a heap that takes more is not mapped (why_not()).
  BlockMap(Machine machine, uint64_t most_bytes);

  // All chunks of a walk.
  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk& chunk) override;
  // The slots of language runtimes, sealed: blocks behind all others. Before seal().
  void set_slots(SlotMap slots) { slots_ = std::move(slots); }
  // After the last one: gives the blocks their numbers.
  void seal();

  // Why no numbers can be given, one clause: the segments of a damaged heap overlap, or there is
  // too much of it. Empty: they can.
  const std::string& why_not() const { return why_not_; }

  BlockNumber blocks() const { return blocks_; }
  // The number of the first slot; blocks() where there is none.
  BlockNumber first_slot() const { return first_slot_; }
  const SlotMap& slots() const { return slots_; }
  unsigned word() const { return static_cast<unsigned>(word_); }  // bytes, of the target
  // The memory of all blocks of malloc, in the order of their numbers; between them lie chunks that
  // are none. That of slots, which are behind them: slots().memory().
  const std::vector<AddressRange>& memory() const { return memory_; }

  // Usable bytes of the block of malloc that begins at `address`; 0 if none does.
  uint64_t usable(Address address, Hint& hint) const;
  uint64_t usable(Address address) const {
    Hint hint;
    return usable(address, hint);
  }

  // Where a block of malloc begins that an address was found in. Takes a search.
  Address address_of(BlockNumber block) const;

  // What lies in some range of a block's usable bytes.
  struct Part {
    BlockNumber block = kNoBlock;
    Address block_begin;
    AddressRange bytes;  // in the range
  };
  // Calls visit(part) for what `range` has of blocks, in ascending order. `range` lies in one of
  // memory().
  template <typename Visit>
  void each_part(const AddressRange& range, Visit visit) const;
  // The same of slots, in one of slots().memory(): visit(part, ObjectClass::skip).
  template <typename Visit>
  void each_slot_part(const AddressRange& range, Visit visit) const {
    const auto give = [&](uint32_t slot, Address begin, const AddressRange& bytes, uint64_t skip) {
      visit(Part{first_slot_ + slot, begin, bytes}, skip);
    };
    slots_.each_part(range, give);
  }

  // False for what lies before or behind all blocks.
  bool is_among_blocks(uint64_t address) const { return address - lowest_ < extent_; }
  // False for most words that are no address in a block.
  bool may_hold(uint64_t address) const {
    const uint64_t part = (address - header_) >> kFilterShift;
    return (filter_[part % kFilterBits / 64] >> (part % 64) & 1) != 0;
  }
  // Whether it lies among chunks of a heap segment, in use or free, or in an mmapped one in use.
  bool is_among_chunks(uint64_t address, Hint& hint) const {
    return is_among_blocks(address) && may_hold(address) &&
           (span_of(address - header_, hint) != nullptr || is_in_segment(address));
  }
  // The block in whose usable bytes the address lies. In a slot, the offset is from where its
  // object begins.
  std::optional<Place> find(uint64_t address, Hint& hint) const {
    Place place;
    if (slots_.has_pages()) place = place_in_slot(address, slots_.look_up(address));
    if (place.block == kNoBlock) place = place_in_chunk(address, hint);
    return place.block == kNoBlock ? std::nullopt : std::optional(place);
  }
  // find() of several addresses, whose cache misses overlap. `places` has room for as many.
  void find_all(std::span<const uint64_t> addresses, Place* places, Hint& hint) const {
    for (; addresses.size() > kTogether; addresses = addresses.subspan(kTogether)) {
      find_some(addresses.first(kTogether), places, hint);
      places += kTogether;
    }
    find_some(addresses, places, hint);
  }

 private:
  static constexpr unsigned kFilterShift = 21;
  static constexpr size_t kFilterBits = 1 << 16;
  static constexpr uint64_t kLargeChunk = 64 << 10;
  static constexpr uint64_t kPlaces = 64;  // of a cell
  static constexpr uint64_t kNoCells = UINT64_MAX;
  static constexpr size_t kTogether = 32;

  struct Cell {
    uint64_t live = 0;
    uint64_t other = 0;
    uint32_t rank = 0;  // blocks of the span before this cell
    uint32_t back = 0;  // cells back to the one before in which a chunk begins
  };
  // Addresses in it are those of headers: lower by a chunk's header than what malloc returns.
  struct Span {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t first_cell = kNoCells;  // kNoCells: one block
    BlockNumber first = 0;           // number of its first block
    BlockNumber blocks = 0;
    bool is_mmapped = false;
  };

  void open_span(uint64_t begin);
  void close_span();
  bool is_small(uint64_t size) const;
  Cell* make_cell(uint64_t index);
  void mark_gap();
  size_t mark_small(uint64_t chunk, std::span<const uint64_t> sizes,
                    std::span<const ChunkState> states);
  void add_block(uint64_t begin, uint64_t end, bool is_mmapped);
  void refuse(std::string why);
  void number_span(Span& span);
  void number_slots();
  void fill_filter(uint64_t begin, uint64_t end);
  const Span* span_of(uint64_t at, Hint& hint) const {
    const Span* const span = hint.span;
    if (span != nullptr && at - span->begin < span->end - span->begin) return span;
    return search_span(at, hint);
  }
  const Span* search_span(uint64_t at, Hint& hint) const;
  bool is_in_segment(uint64_t address) const;
  void find_some(std::span<const uint64_t> addresses, Place* places, Hint& hint) const;
  void find_some_in_slots(std::span<const uint64_t> addresses, Place* places, Hint& hint) const;
  Place place_in_slot(uint64_t address, const SlotMap::Found& found) const {
    const SlotMap::Place slot = slots_.find_in(found, address);
    if (slot.number == SlotMap::kNone) return {};
    return {first_slot_ + slot.number, slot.offset};
  }
  Place place_in_chunk(uint64_t address, Hint& hint) const {
    const uint64_t at = address - header_;
    return place_in_span(span_of(at, hint), at);
  }
  // `span`: the one that `at` lies in, or null.
  Place place_in_span(const Span* span, uint64_t at) const {
    if (span == nullptr) return {};
    const uint64_t into = at - span->begin;
    if (span->first_cell == kNoCells) return Place{span->first, into};
    return place_in_cell(*span, *cell_of(*span, into), into);
  }
  const Cell* cell_of(const Span& span, uint64_t into) const {
    return &cells_[span.first_cell + (into >> place_shift_) / kPlaces];
  }
  // span_of() of an address, whose cell is fetched.
  const Span* fetch(uint64_t address, Hint& hint) const {
    const uint64_t at = address - header_;
    const Span* const span = span_of(at, hint);
    if (span != nullptr && span->first_cell != kNoCells) {
      __builtin_prefetch(cell_of(*span, at - span->begin));
    }
    return span;
  }
  // Of what lies `into` bytes behind a span's begin, in `cell`.
  Place place_in_cell(const Span& span, const Cell& cell, uint64_t into) const {
    const uint64_t bit = uint64_t{1} << ((into >> place_shift_) % kPlaces);
    // Most addresses are of first bytes.
    if ((cell.live & bit) == 0 || (into & (header_ - 1)) != 0) return find_inside(span, into);
    return Place{span.first + cell.rank + count_bits(cell.live & (bit - 1)), 0};
  }
  Place find_inside(const Span& span, uint64_t into) const;
  // The place at or before `place` where a chunk begins.
  static uint64_t last_begin(const Cell* cells, uint64_t place) {
    uint64_t index = place / kPlaces;
    uint64_t begins = (cells[index].live | cells[index].other) &
                      (~uint64_t{0} >> (kPlaces - 1 - place % kPlaces));
    if (begins == 0) {
      index -= cells[index].back;
      begins = cells[index].live | cells[index].other;
    }
    return index * kPlaces + static_cast<uint64_t>(std::bit_width(begins) - 1);
  }

  uint64_t word_;
  uint64_t header_;
  unsigned place_shift_;
  uint64_t most_bytes_;
  bool is_open_ = false;
  uint64_t open_end_ = 0;  // of the last chunk of the open span
  uint32_t segment_ = 0;
  std::vector<AddressRange> segments_;  // of chunks that were received; once sealed, ascending
  LargeArray<Cell> cells_;
  std::vector<Span> spans_;
  std::vector<uint64_t> begins_;     // of spans_, once sealed
  std::vector<uint32_t> by_number_;  // spans_, in the order of their blocks' numbers
  std::vector<AddressRange> memory_;
  BlockNumber blocks_ = 0;
  BlockNumber first_slot_ = 0;
  SlotMap slots_;
  bool has_pages_in_blocks_ = false;  // blocks of malloc are pages of slots
  std::string why_not_;
  uint64_t lowest_ = 0;  // address in a block; all of them lie in `extent_` bytes from there on
  uint64_t extent_ = 0;
  std::array<uint64_t, kFilterBits / 64> filter_{};
};

template <typename Visit>
void BlockMap::each_part(const AddressRange& range, Visit visit) const {
  Hint hint;
  const uint64_t begin = range.begin.value() - header_;
  const Span* const span = span_of(begin, hint);
  if (span == nullptr) return;
  const uint64_t end = std::min(range.end.value() - header_, span->end);
  // Of a chunk from `first` to `next`, the block's bytes end with the next one's first word.
  const auto give = [&](BlockNumber block, uint64_t first, uint64_t last) {
    const uint64_t from = std::max(first, begin);
    const uint64_t to = std::min(last, end);
    if (from >= to) return;
    if (has_pages_in_blocks_ && slots_.contains(first + header_)) return;
    visit(Part{block, Address(first + header_), {Address(from + header_), Address(to + header_)}});
  };
  if (span->first_cell == kNoCells) return give(span->first, span->begin, span->end);
  const Cell* const cells = &cells_[span->first_cell];
  const uint64_t places = (span->end - span->begin) >> place_shift_;
  uint64_t chunk = last_begin(cells, (begin - span->begin) >> place_shift_);
  uint64_t index = chunk / kPlaces;
  const uint64_t up_to = ~uint64_t{0} >> (kPlaces - 1 - chunk % kPlaces);
  uint64_t begins = (cells[index].live | cells[index].other) & ~up_to;
  BlockNumber number = span->first + cells[index].rank + count_bits(cells[index].live & up_to >> 1);
  for (;;) {
    const bool live = (cells[chunk / kPlaces].live >> (chunk % kPlaces) & 1) != 0;
    while (begins == 0 && ++index * kPlaces < places) {
      begins = cells[index].live | cells[index].other;
    }
    const uint64_t next =
        begins == 0 ? places : index * kPlaces + static_cast<uint64_t>(std::countr_zero(begins));
    const uint64_t next_begin = span->begin + (next << place_shift_);
    if (live) give(number++, span->begin + (chunk << place_shift_), next_begin - word_);
    if (next == places || next_begin >= end) return;
    begins &= begins - 1;
    chunk = next;
  }
}

}  // namespace heapsnap
