#include "references/slot_map.h"

namespace heapsnap {

void SlotMap::add_page(const AddressRange& page, Address first_slot, uint32_t slot_bytes,
                       uint32_t slots) {
  Page added;
  added.range = page;
  added.first = first_slot.value();
  added.slot_bytes = slot_bytes;
  added.slots = slots;
  added.reciprocal = ((uint64_t{1} << 32) + slot_bytes - 1) / slot_bytes;
  added.first_cell = cells_.size();
  added.first_class = class_of_.size();
  pages_.push_back(added);
  for (uint32_t i = 0; i < slots; i += 64) cells_.push_back(Cell{});
}

void SlotMap::seal() {
  const auto by_begin = [](const Page& a, const Page& b) { return a.range.begin < b.range.begin; };
  const bool are_in_order = std::is_sorted(pages_.begin(), pages_.end(), by_begin);
  std::sort(pages_.begin(), pages_.end(), by_begin);
  // Two runtimes never have a page in common; what overlaps was misread.
  const auto last = std::unique(pages_.begin(), pages_.end(), [](const Page& a, const Page& b) {
    return b.range.begin < a.range.end;
  });
  const bool are_apart = last == pages_.end();
  pages_.erase(last, pages_.end());
  LargeArray<uint32_t> classes;
  uint32_t rank = 0;
  for (const Page& page : pages_) {
    uint64_t from = page.first_class;
    for (uint64_t i = 0; i < (page.slots + 63) / 64; ++i) {
      Cell& cell = cells_[page.first_cell + i];
      cell.rank = rank;
      const uint32_t used = count_bits(cell.used);
      rank += used;
      if (are_in_order && are_apart) continue;
      for (uint32_t slot = 0; slot < used; ++slot) classes.push_back(class_of_[from++]);
    }
  }
  if (!are_in_order || !are_apart) class_of_ = std::move(classes);
  fill_table();
}

void SlotMap::fill_table() {
  if (pages_.empty()) return;
  uint64_t part = kMostPage;
  uint64_t parts = 0;
  for (const Page& page : pages_) part = std::min(part, std::bit_ceil(page.range.size()));
  for (const Page& page : pages_) parts += std::bit_ceil(page.range.size()) / part;
  part_shift_ = static_cast<unsigned>(std::countr_zero(part));
  const unsigned bits = std::max(4U, static_cast<unsigned>(std::bit_width(parts)) + 1);
  table_.assign(size_t{1} << bits, Entry{});
  table_shift_ = 64 - bits;
  for (uint32_t i = 0; i < pages_.size(); ++i) {
    for (Address at = pages_[i].range.begin; at < pages_[i].range.end; at = at + part) {
      size_t place = slot_of_table(at.value());
      while (table_[place].part != 0) place = (place + 1) % table_.size();
      table_[place] = {(at.value() >> part_shift_) + 1, i};
    }
  }
}

std::vector<AddressRange> SlotMap::memory() const {
  std::vector<AddressRange> ranges;
  for (const Page& page : pages_) {
    if (!ranges.empty() && ranges.back().end == page.range.begin) {
      ranges.back().end = page.range.end;
    } else {
      ranges.push_back(page.range);
    }
  }
  return ranges;
}

}  // namespace heapsnap
