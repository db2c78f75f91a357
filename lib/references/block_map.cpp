#include "references/block_map.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace heapsnap {

BlockMap::BlockMap(Machine machine, uint64_t most_bytes)
    : word_(word_size(machine)),
      header_(2 * word_),
      place_shift_(static_cast<unsigned>(std::countr_zero(2 * word_))),
      most_bytes_(most_bytes) {}

void BlockMap::refuse(std::string why) {
  if (!why_not_.empty()) return;
  why_not_ = std::move(why);
  is_open_ = false;
  cells_.release();
  spans_ = {};
}

void BlockMap::open_span(uint64_t begin) {
  if (begin % header_ != 0) return refuse("a chunk of the damaged heap is not aligned");
  spans_.push_back({.begin = begin, .end = begin, .first_cell = cells_.size()});
  open_end_ = begin;
  is_open_ = true;
}

void BlockMap::close_span() {
  if (!is_open_) return;
  is_open_ = false;
  Span& span = spans_.back();
  span.end = open_end_;
  // The last chunk may reach past the cell in which it begins.
  const uint64_t places = (span.end - span.begin) >> place_shift_;
  const uint64_t end = span.first_cell + (places + kPlaces - 1) / kPlaces;
  if (end > cells_.size()) cells_.append_zeros(end - cells_.size());
}

bool BlockMap::is_small(uint64_t size) const {
  return size < kLargeChunk && (size & (header_ - 1)) == 0;
}

// Null: it was refused.
BlockMap::Cell* BlockMap::make_cell(uint64_t index) {
  if (index >= cells_.size()) {
    if ((index + 1) * sizeof(Cell) > most_bytes_) {
      refuse("the heap has more chunks than there is memory for a map of them");
      return nullptr;
    }
    cells_.append_zeros(index + 1 - cells_.size());
  }
  return &cells_[index];
}

// What lies between belongs to nobody.
void BlockMap::mark_gap() {
  const Span& span = spans_.back();
  const uint64_t place = (open_end_ - span.begin) >> place_shift_;
  Cell* const cell = make_cell(span.first_cell + place / kPlaces);
  if (cell != nullptr) cell->other |= uint64_t{1} << (place % kPlaces);
}

// The small chunks that come first, of which the first lies at `chunk` in the open span; gives how
// many they are. All that begin in one cell are written together.
size_t BlockMap::mark_small(uint64_t chunk, std::span<const uint64_t> sizes,
                            std::span<const ChunkState> states) {
  Span& span = spans_.back();
  uint64_t place = (chunk - span.begin) >> place_shift_;
  size_t count = 0;
  while (count < sizes.size() && is_small(sizes[count])) {
    const uint64_t index = place / kPlaces;
    Cell* const cell = make_cell(span.first_cell + index);
    if (cell == nullptr) return count;
    uint64_t live = 0;
    uint64_t other = 0;
    do {
      const uint64_t bit = uint64_t{1} << (place % kPlaces);
      (is_live(states[count]) ? live : other) |= bit;
      place += sizes[count++] >> place_shift_;
    } while (place / kPlaces == index && count < sizes.size() && is_small(sizes[count]));
    cell->live |= live;
    cell->other |= other;
    span.blocks += count_bits(live);
  }
  open_end_ = span.begin + (place << place_shift_);
  return count;
}

void BlockMap::add_block(uint64_t begin, uint64_t end, bool is_mmapped) {
  constexpr size_t kBytes =
      sizeof(Span) + sizeof(uint64_t) + sizeof(uint32_t) + sizeof(AddressRange);
  if ((spans_.size() + 1) * kBytes > most_bytes_) {
    return refuse("the heap has more large chunks than there is memory for a list of them");
  }
  spans_.push_back({.begin = begin, .end = end, .blocks = 1, .is_mmapped = is_mmapped});
}

void BlockMap::on_batch(const ChunkBatch& batch) {
  if (!why_not_.empty()) return;
  uint64_t chunk = batch.begin.value();
  if (is_open_ &&
      (batch.segment != segment_ || chunk < open_end_ || chunk - open_end_ >= kLargeChunk)) {
    close_span();
  }
  if (segments_.empty() || batch.segment != segment_)
    segments_.push_back({batch.begin, batch.begin});
  segment_ = batch.segment;
  if (is_open_ && chunk != open_end_) mark_gap();
  for (size_t i = 0; i < batch.sizes.size() && why_not_.empty();) {
    const uint64_t size = batch.sizes[i];
    if (is_small(size)) {
      if (!is_open_) open_span(chunk);
      if (!why_not_.empty()) return;
      i += mark_small(chunk, batch.sizes.subspan(i), batch.states.subspan(i));
      chunk = open_end_;
      continue;
    }
    close_span();
    if (is_live(batch.states[i++])) {
      add_block(chunk, chunk + (size > word_ ? size - word_ : 0), false);
    }
    chunk += size;
  }
  segments_.back().end = Address(chunk);
}

bool BlockMap::is_in_segment(uint64_t address) const {
  const auto after =
      std::upper_bound(segments_.begin(), segments_.end(), Address(address),
                       [](Address at, const AddressRange& segment) { return at < segment.begin; });
  return after != segments_.begin() && std::prev(after)->contains(Address(address));
}

void BlockMap::on_mmapped(const MmappedChunk& chunk) {
  if (!why_not_.empty()) return;
  close_span();
  if (!is_live(chunk.state)) return;
  add_block(chunk.chunk.value(), chunk.chunk.value() + chunk.usable, true);
}

void BlockMap::number_span(Span& span) {
  span.first = blocks_;
  blocks_ += span.blocks;
  memory_.push_back({Address(span.begin + header_), Address(span.end + header_)});
  if (span.first_cell == kNoCells) return;
  uint32_t rank = 0;
  uint32_t back = 0;
  const uint64_t places = (span.end - span.begin) >> place_shift_;
  for (uint64_t i = 0; i * kPlaces < places; ++i) {
    Cell& cell = cells_[span.first_cell + i];
    cell.rank = rank;
    cell.back = back;
    rank += count_bits(cell.live);
    back = (cell.live | cell.other) != 0 ? 1 : back + 1;
  }
}

// A page of a runtime may be a block of malloc: what lies in a slot of it belongs to the slot.
void BlockMap::number_slots() {
  first_slot_ = blocks_;
  if (slots_.size() >= kNoBlock - blocks_) {
    blocks_ = 0;
    return refuse("it has more objects than a snapshot can number");
  }
  blocks_ += slots_.size();
  Hint hint;
  for (const AddressRange& range : slots_.memory()) {
    fill_filter(range.begin.value() - header_, range.end.value() - header_);
    has_pages_in_blocks_ |= span_of(range.begin.value() - header_, hint) != nullptr;
  }
}

void BlockMap::fill_filter(uint64_t begin, uint64_t end) {
  const uint64_t first_address = begin + header_;
  const uint64_t lowest = extent_ == 0 ? first_address : std::min(lowest_, first_address);
  extent_ = std::max(lowest_ + extent_, end + header_) - lowest;
  lowest_ = lowest;
  const uint64_t first = begin >> kFilterShift;
  const uint64_t last = (end - 1) >> kFilterShift;
  const uint64_t count = std::min<uint64_t>(last - first + 1, kFilterBits);
  for (uint64_t part = first; part != first + count; ++part) {
    filter_[part % kFilterBits / 64] |= uint64_t{1} << (part % 64);
  }
}

void BlockMap::seal() {
  close_span();
  if (!why_not_.empty()) return;
  uint64_t blocks = 0;
  for (const Span& span : spans_) {
    if (span.end < span.begin) return refuse("a chunk of the damaged heap ends past all addresses");
    blocks += span.blocks;
  }
  if (blocks >= kNoBlock) return refuse("it has more blocks than a snapshot can number");
  std::sort(segments_.begin(), segments_.end());
  const auto by_begin = [](const Span& a, const Span& b) { return a.begin < b.begin; };
  const auto mmapped = std::stable_partition(spans_.begin(), spans_.end(),
                                             [](const Span& span) { return !span.is_mmapped; });
  std::stable_sort(spans_.begin(), mmapped, by_begin);
  memory_.reserve(spans_.size());
  for (Span& span : spans_) number_span(span);

  std::erase_if(spans_, [](const Span& span) { return span.end == span.begin; });
  std::sort(spans_.begin(), spans_.end(), by_begin);
  for (size_t i = 1; i < spans_.size(); ++i) {
    if (spans_[i].begin < spans_[i - 1].end) {
      blocks_ = 0;
      return refuse("segments of the damaged heap overlap");
    }
  }
  begins_.reserve(spans_.size());
  for (const Span& span : spans_) {
    begins_.push_back(span.begin);
    fill_filter(span.begin, span.end);
  }
  by_number_.resize(spans_.size());
  std::iota(by_number_.begin(), by_number_.end(), 0U);
  // One without blocks has the number of the one after it.
  std::sort(by_number_.begin(), by_number_.end(), [this](uint32_t a, uint32_t b) {
    return std::pair(spans_[a].first, spans_[a].blocks) <
           std::pair(spans_[b].first, spans_[b].blocks);
  });
  number_slots();
}

const BlockMap::Span* BlockMap::search_span(uint64_t at, Hint& hint) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), at);
  if (after == begins_.begin()) return nullptr;
  const auto index = static_cast<uint32_t>(after - begins_.begin() - 1);
  if (at >= spans_[index].end) return nullptr;
  hint.span = &spans_[index];
  return hint.span;
}

// Cells are fetched first, then looked at.
void BlockMap::find_some(std::span<const uint64_t> addresses, Place* places, Hint& hint) const {
  if (slots_.has_pages()) return find_some_in_slots(addresses, places, hint);
  std::array<const Span*, kTogether> spans;
  for (size_t i = 0; i < addresses.size(); ++i) spans[i] = fetch(addresses[i], hint);
  for (size_t i = 0; i < addresses.size(); ++i) {
    places[i] = place_in_span(spans[i], addresses[i] - header_);
  }
}

// A slot that is not used may be a part of a block of malloc.
void BlockMap::find_some_in_slots(std::span<const uint64_t> addresses, Place* places,
                                  Hint& hint) const {
  std::array<SlotMap::Found, kTogether> slots;
  std::array<const Span*, kTogether> spans;  // of those in no slot
  for (size_t i = 0; i < addresses.size(); ++i) {
    slots[i] = slots_.look_up(addresses[i]);
    if (slots[i].cell != nullptr) {
      __builtin_prefetch(slots[i].cell);
    } else {
      spans[i] = fetch(addresses[i], hint);
    }
  }
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (slots[i].cell == nullptr) {
      places[i] = place_in_span(spans[i], addresses[i] - header_);
      continue;
    }
    places[i] = place_in_slot(addresses[i], slots[i]);
    if (places[i].block == kNoBlock) places[i] = place_in_chunk(addresses[i], hint);
  }
}

uint64_t BlockMap::usable(Address address, Hint& hint) const {
  if (has_pages_in_blocks_ && slots_.find(address.value())) return 0;
  const uint64_t begin = address.value() - header_;
  const Span* const found = span_of(begin, hint);
  if (found == nullptr) return 0;
  const Span& span = *found;
  const uint64_t into = begin - span.begin;
  if (span.first_cell == kNoCells) return into == 0 ? span.end - begin : 0;
  const uint64_t places = (span.end - span.begin) >> place_shift_;
  const Cell* const cells = &cells_[span.first_cell];
  const uint64_t place = into >> place_shift_;
  const bool begins = (cells[place / kPlaces].live >> (place % kPlaces) & 1) != 0;
  if (!begins || into % header_ != 0) return 0;
  uint64_t next = place + 1;
  while (next < places) {
    const Cell& cell = cells[next / kPlaces];
    const uint64_t starts = (cell.live | cell.other) >> (next % kPlaces);
    if (starts != 0) {
      next += static_cast<uint64_t>(std::countr_zero(starts));
      break;
    }
    next = (next / kPlaces + 1) * kPlaces;
  }
  return span.begin + (std::min(next, places) << place_shift_) - begin - word_;
}

BlockMap::Place BlockMap::find_inside(const Span& span, uint64_t into) const {
  const uint64_t place = into >> place_shift_;
  const Cell* const cells = &cells_[span.first_cell];
  const uint64_t chunk = last_begin(cells, place);
  const uint64_t index = chunk / kPlaces;
  const uint64_t bit = chunk % kPlaces;
  const uint64_t live = cells[index].live;
  if ((live >> bit & 1) == 0) return {};
  // The last word before the next chunk's first usable byte is that chunk's size field.
  if (into % header_ >= word_) {
    const uint64_t next = place + 1;
    if (span.begin + (next << place_shift_) >= span.end) return {};
    const Cell& cell = cells[next / kPlaces];
    if (((cell.live | cell.other) >> (next % kPlaces) & 1) != 0) return {};
  }
  const uint32_t before = count_bits(live & ((uint64_t{1} << bit) - 1));
  return Place{span.first + cells[index].rank + before, into - (chunk << place_shift_)};
}

Address BlockMap::address_of(BlockNumber block) const {
  const auto after = std::upper_bound(
      by_number_.begin(), by_number_.end(), block,
      [this](BlockNumber number, uint32_t span) { return number < spans_[span].first; });
  const Span& span = spans_[*std::prev(after)];
  if (span.first_cell == kNoCells) return Address(span.begin + header_);
  const uint32_t rank = block - span.first;
  const Cell* const cells = cells_.begin() + span.first_cell;
  const uint64_t places = (span.end - span.begin) >> place_shift_;
  const Cell* const end = cells + (places + kPlaces - 1) / kPlaces;
  const Cell* const cell = std::prev(std::upper_bound(
      cells, end, rank, [](uint32_t number, const Cell& each) { return number < each.rank; }));
  uint64_t live = cell->live;
  for (uint32_t i = cell->rank; i < rank; ++i) live &= live - 1;
  const uint64_t place =
      static_cast<uint64_t>(cell - cells) * kPlaces + static_cast<uint64_t>(std::countr_zero(live));
  return Address(span.begin + (place << place_shift_) + header_);
}

}  // namespace heapsnap
