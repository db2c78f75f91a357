// The slots of a language runtime's pages as blocks: which one an address lies in.
//
//   page   | header | slot 0 | slot 1 | slot 2 | ... | rest |      all slots of one size
//   used   |        |   1    |   0    |   1    |             a bit each
//   object |        |.. ^    |        |^                     what references to it hold: past the
//                                                            words that a collector keeps in front
//
// A used slot is a block of the graph of references, numbered after those of malloc in ascending
// order of address. Its class says where the object begins in it and which of its words are no
// references: links of the collector's own, characters, what it does not keep alive.
//
// An address is looked up in a table of pages: one place of it, and one cell of the page's bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/count_bits.h"
#include "base/large_memory.h"
#include "references/reference.h"

namespace heapsnap {

// What the slots, and blocks of malloc, of one class have in common.
struct ObjectClass {
  static constexpr uint64_t kNoReferences = ~uint64_t{0};
  // A word that leads to a buffer of the object's own, and what that is called.
  struct Buffer {
    uint32_t word = 0;
    uint8_t kind = 0;  // index into RuntimeObjects::buffer_kinds
    bool operator==(const Buffer&) const = default;
  };
  // Of a block of malloc: rows of so many words behind the first ones, each with one word that is a
  // number.
  struct Rows {
    uint32_t first = 0;
    uint32_t words = 0;  // 0: there are none
    uint32_t number = 0;
  };
  std::string name;     // empty: no object, but a buffer of one
  std::string builtin;  // these two: as BlockType's
  std::string part;
  // Bytes from the begin of the slot, or of the block: 0, 16 or 32; of a buffer any multiple of 8.
  uint32_t object_at = 0;
  uint64_t skip = 0;  // a bit for each word that is no reference; the last one for the rest
  std::vector<Buffer> buffers;  // few
  // Of a buffer whose object said so: index into RuntimeObjects::buffer_kinds, and one; 0: which
  // kind it is, a word says that leads to it.
  uint8_t kind = 0;
  Rows rows = {};
  bool is_exact = false;  // BlockType's
  // Whether nothing that leads to its first byte is a reference but the words of others that have a
  // bit in `links`.
  bool is_held_by_links = false;
  uint64_t links = 0;
  // Whether no word of blocks and slots that leads to it, or into it, is a reference: what holds it
  // is a root, or RuntimeObjects::Listed.
  bool is_held_from_outside = false;
  static constexpr uint64_t word_bit(uint64_t offset) { return uint64_t{1} << (offset / 8); }
  // From a word on.
  static constexpr uint64_t words_from(uint64_t word) {
    return word >= 64 ? 0 : kNoReferences << word;
  }
  // `skip` as of an object that begins `word` words further on: the last bit is for the rest.
  static constexpr uint64_t skip_from(uint64_t skip, uint64_t word) {
    return static_cast<uint64_t>(static_cast<int64_t>(skip) >> std::min<uint64_t>(word, 63));
  }
  bool skips(uint64_t word) const {
    if (rows.words != 0 && word >= rows.first && (word - rows.first) % rows.words == rows.number) {
      return true;
    }
    return (skip >> std::min<uint64_t>(word, 63) & 1) != 0;
  }
};

// The used slots of one page, as a snapshot has them.
struct SlotPage {
  Address begin;  // of the first slot
  uint32_t slot_bytes = 0;
  uint32_t slots = 0;
  std::span<const uint64_t> used;  // 64 slots each, the first one's bit the lowest
};

class SlotMap {
  struct Page;
  struct Cell;

 public:
  static constexpr uint64_t kLeastPage = 4096;
  static constexpr uint64_t kMostPage = 1 << 16;

  struct Place {
    uint32_t number = kNone;  // kNone: of no used slot
    uint64_t offset = 0;      // 0: the object begins there
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  // The class that slots have which are no objects.
  static constexpr uint32_t kBuffers = 0;
  uint32_t add_class(ObjectClass one) {
    marks_.push_back({one.object_at == 16, one.object_at == 32, one.name.empty()});
    classes_.push_back(std::move(one));
    return static_cast<uint32_t>(classes_.size() - 1);
  }
  const std::vector<ObjectClass>& classes() const { return classes_; }

  // A page, aligned to its size, rounded up to a power of two from kLeastPage to kMostPage; its
  // slots lie in it. (Those of Ruby 2.7 leave room for malloc's header of the next block.)
  // Then those of its slots that are used, ascending.
  void add_page(const AddressRange& page, Address first_slot, uint32_t slot_bytes, uint32_t slots);
  void add_slot(uint32_t index, uint32_t of_class) {
    Cell& cell = cells_[pages_.back().first_cell + index / 64];
    const unsigned place = index % 64;
    const Marks& marks = marks_[of_class];
    cell.used |= uint64_t{1} << place;
    cell.at_16 |= uint64_t{marks.at_16} << place;
    cell.at_32 |= uint64_t{marks.at_32} << place;
    cell.is_buffer |= uint64_t{marks.is_buffer} << place;
    class_of_.push_back(of_class);
  }
  // After the last one; what follows needs it.
  void seal();

  bool has_pages() const { return !pages_.empty(); }
  uint32_t size() const { return static_cast<uint32_t>(class_of_.size()); }
  uint32_t class_number(uint32_t slot) const { return class_of_[slot]; }
  const ObjectClass& class_of(uint32_t slot) const { return classes_[class_of_[slot]]; }
  // Once sealed: of a slot that is no object, another class without a name.
  void set_class(uint32_t slot, uint32_t of_class) { class_of_[slot] = of_class; }
  // Whole pages, ascending; those that follow each other are one.
  std::vector<AddressRange> memory() const;

  // The slot, used or not, in which an address lies.
  struct Found {
    const Page* page = nullptr;
    const Cell* cell = nullptr;  // null: in none
    uint64_t index = 0;          // of the slot in the page
  };
  Found look_up(uint64_t address) const {
    const Page* const page = page_at(address);
    if (page == nullptr) return {};
    const uint64_t index = (address - page->first) * page->reciprocal >> 32;
    if (address < page->first || index >= page->slots) return {};
    return {page, &cells_[page->first_cell + index / 64], index};
  }
  std::optional<Place> find(uint64_t address) const {
    const Place place = find_in(look_up(address), address);
    return place.number == kNone ? std::nullopt : std::optional(place);
  }
  // find() of an address that was looked up.
  Place find_in(const Found& found, uint64_t address) const {
    if (found.cell == nullptr) return {};
    const Page& page = *found.page;
    const Cell& cell = *found.cell;
    const uint64_t bit = uint64_t{1} << (found.index % 64);
    if ((cell.used & bit) == 0) return {};
    const uint64_t object_at = (cell.at_16 & bit) != 0 ? 16 : (cell.at_32 & bit) != 0 ? 32 : 0;
    const uint32_t number = cell.rank + count_bits(cell.used & (bit - 1));
    const uint64_t in_slot = address - page.first - found.index * page.slot_bytes;
    if ((cell.is_buffer & bit) != 0) return Place{number, offset_in_buffer(number, in_slot)};
    return Place{number, in_slot - object_at};
  }
  // Where the slot begins in which the address, of which find() knows, lies.
  Address begin_of(uint64_t address) const {
    const Page& page = *page_at(address);
    return Address(address - (address - page.first) % page.slot_bytes);
  }
  // Whether the address lies in a page, in a slot or not.
  bool contains(uint64_t address) const {
    const Page* const page = page_at(address);
    return page != nullptr && page->range.contains(Address(address));
  }

  // Calls visit(slot, its begin, its bytes in `range`, ObjectClass::skip) for all used slots,
  // ascending.
  template <typename Visit>
  void each_part(const AddressRange& range, Visit visit) const;
  // Calls visit(slot, its begin, its bytes) for all used slots, ascending.
  template <typename Visit>
  void each_slot(Visit visit) const;
  // All pages, ascending.
  template <typename Visit>
  void each_page(Visit visit) const;

 private:
  struct Page {
    AddressRange range;
    uint64_t first = 0;  // address of slot 0
    uint32_t slot_bytes = 0;
    uint32_t slots = 0;
    uint64_t reciprocal = 0;  // 2^32 / slot_bytes, rounded up: exact for offsets in a page
    uint64_t first_cell = 0;
    uint64_t first_class = 0;  // in class_of_, as they were added
  };
  struct Cell {
    uint64_t used = 0;
    uint64_t at_16 = 0;
    uint64_t at_32 = 0;
    uint64_t is_buffer = 0;
    uint32_t rank = 0;  // used slots before this cell
  };
  // A class's bits in a cell.
  struct Marks {
    bool at_16 = false;
    bool at_32 = false;
    bool is_buffer = true;
  };
  struct Entry {
    uint64_t part = 0;  // of the address space, and one; 0: free
    uint32_t page = 0;
  };

  // A buffer may have words in front of where its object's reference to it leads, which is a byte
  // less where Python 3.12 tags it. What nobody has said anything of may be an object of a type
  // that is not known.
  uint64_t offset_in_buffer(uint32_t number, uint64_t in_slot) const {
    if (in_slot == 0) return 0;
    const uint32_t of_class = class_of_[number];
    const uint64_t begin = classes_[of_class].object_at;
    const bool may_begin = of_class == kBuffers ? in_slot == 16 || in_slot == 32
                                                : in_slot == begin || in_slot + 1 == begin;
    return may_begin ? 0 : in_slot;
  }
  size_t slot_of_table(uint64_t address) const {
    return ((address >> part_shift_) * 0x9e3779b97f4a7c15) >> table_shift_;
  }
  const Page* page_at(uint64_t address) const {
    if (table_.empty()) return nullptr;
    const uint64_t part = (address >> part_shift_) + 1;
    for (size_t i = slot_of_table(address);; i = (i + 1) % table_.size()) {
      if (table_[i].part == part) return &pages_[table_[i].page];
      if (table_[i].part == 0) return nullptr;
    }
  }
  void fill_table();

  std::vector<ObjectClass> classes_ = {ObjectClass{}};
  std::vector<Marks> marks_ = {Marks{}};  // by class
  std::vector<Page> pages_;
  LargeArray<Cell> cells_;
  LargeArray<uint32_t> class_of_;  // by number, once sealed
  std::vector<Entry> table_;
  unsigned part_shift_ = 0;
  unsigned table_shift_ = 0;
};

template <typename Visit>
void SlotMap::each_part(const AddressRange& range, Visit visit) const {
  auto page = std::partition_point(pages_.begin(), pages_.end(), [&range](const Page& one) {
    return one.range.end <= range.begin;
  });
  for (; page != pages_.end() && page->range.begin < range.end; ++page) {
    const uint64_t from = std::max(range.begin.value(), page->first);
    const uint64_t to =
        std::min(range.end.value(), page->first + uint64_t{page->slots} * page->slot_bytes);
    if (from >= to) continue;
    const uint64_t first = (from - page->first) / page->slot_bytes;
    const uint64_t last = (to - page->first - 1) / page->slot_bytes;
    for (uint64_t base = first & ~uint64_t{63}; base <= last; base += 64) {
      const Cell& cell = cells_[page->first_cell + base / 64];
      const uint64_t before = base < first ? (uint64_t{1} << (first - base)) - 1 : 0;
      uint32_t number = cell.rank + count_bits(cell.used & before);
      uint64_t bits = cell.used & ~before;
      if (last - base < 63) bits &= (uint64_t{2} << (last - base)) - 1;
      for (; bits != 0; bits &= bits - 1, ++number) {
        const uint64_t index = base + static_cast<uint64_t>(std::countr_zero(bits));
        const uint64_t begin = page->first + index * page->slot_bytes;
        const AddressRange part{Address(std::max(from, begin)),
                                Address(std::min(to, begin + page->slot_bytes))};
        visit(number, Address(begin), part, classes_[class_of_[number]].skip);
      }
    }
  }
}

template <typename Visit>
void SlotMap::each_slot(Visit visit) const {
  for (const Page& page : pages_) {
    for (uint64_t first = 0; first < page.slots; first += 64) {
      const Cell& cell = cells_[page.first_cell + first / 64];
      uint32_t number = cell.rank;
      for (uint64_t bits = cell.used; bits != 0; bits &= bits - 1) {
        const uint64_t index = first + static_cast<uint64_t>(std::countr_zero(bits));
        visit(number++, Address(page.first + index * page.slot_bytes), page.slot_bytes);
      }
    }
  }
}

template <typename Visit>
void SlotMap::each_page(Visit visit) const {
  std::vector<uint64_t> used;
  for (const Page& page : pages_) {
    used.clear();
    for (uint64_t i = 0; i < (page.slots + 63) / 64; ++i) {
      used.push_back(cells_[page.first_cell + i].used);
    }
    visit(SlotPage{Address(page.first), page.slot_bytes, page.slots, used});
  }
}

}  // namespace heapsnap
