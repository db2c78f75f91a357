#include "runtime/ruby/ruby_pages.h"

#include <algorithm>
#include <bit>

#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

constexpr uint64_t kMostPages = 1 << 24;  // 256 GiB
constexpr uint64_t kLargestSlot = 4096;

// Where the array of pages is, and how many there are; 0: not known.
struct PageArray {
  Address at;
  uint64_t count = 0;
};

PageArray find_array(MemoryReader& memory, const RubyLayout& layout, Address space) {
  const auto at = memory.read_value<uint64_t>(space + layout.space_pages);
  if (!at || *at == 0) return {};
  // A rb_darray begins with how many it has.
  const bool is_array = layout.space_pages_data == 0;
  const Address place = is_array ? space + layout.space_page_count : Address(*at);
  return {Address(*at) + layout.space_pages_data, memory.read_value<uint64_t>(place).value_or(0)};
}

class PageHeaders {
 public:
  PageHeaders(Target& target, const RubyLayout& layout)
      : memory_(target.memory()),
        layout_(layout),
        size_(
            std::max({layout.page_slot_bytes == RubyLayout::kNone ? 0 : layout.page_slot_bytes + 2,
                      layout.page_total_slots + 2, layout.page_flags + 4, layout.page_start + 8})) {
  }

  // Reads the pages at `places`, and adds those that fit.
  void read(std::span<const Address> places, RubyPages& found) {
    read_pieces(places, size_, headers_, known_);
    pages_.clear();
    for (size_t i = 0; i < places.size(); ++i) {
      RubyPage page;
      page.header = places[i];
      const auto bytes = std::span<const std::byte>(headers_).subspan(i * size_, size_);
      if (known_[i] && fits(StructBytes(bytes, 8), page)) {
        pages_.push_back(page);
      } else {
        ++found.damaged;
      }
    }
    // Each body says whose it is.
    std::vector<Address> bodies;
    for (const RubyPage& page : pages_) bodies.push_back(page.body);
    read_pieces(bodies, RubyLayout::kPageHeader, headers_, known_);
    for (size_t i = 0; i < pages_.size(); ++i) {
      const auto bytes = std::span<const std::byte>(headers_).subspan(i * RubyLayout::kPageHeader,
                                                                      RubyLayout::kPageHeader);
      if (known_[i] && StructBytes(bytes, 8).word_at(0) == pages_[i].header.value()) {
        add(pages_[i], found);
      } else {
        ++found.damaged;
      }
    }
  }

 private:
  void read_pieces(std::span<const Address> places, size_t piece, std::vector<std::byte>& out,
                   std::vector<bool>& known) {
    out.resize(places.size() * piece);
    known.assign(places.size(), true);
    size_t done = 0;
    while (done < places.size()) {
      done +=
          memory_.read_pieces(places.subspan(done), piece, std::span(out).subspan(done * piece));
      if (done < places.size()) known[done++] = false;
    }
  }
  bool fits(const StructBytes& header, RubyPage& page) const {
    constexpr uint32_t kShort = 0xffff;
    const Address start(header.word_at(layout_.page_start));
    page.body = start.align_down(std::bit_ceil(layout_.page_bytes));
    page.start = static_cast<uint32_t>(start - page.body);
    page.slots = header.int_at(layout_.page_total_slots) & kShort;
    page.slot_bytes = layout_.page_slot_bytes == RubyLayout::kNone
                          ? RubyLayout::kLeastSlot
                          : header.int_at(layout_.page_slot_bytes) & kShort;
    page.is_unswept = (header.int_at(layout_.page_flags) & RubyLayout::kBeforeSweep) != 0;
    const uint64_t end = page.start + uint64_t{page.slots} * page.slot_bytes;
    return !page.body.is_null() && page.start % 8 == 0 && page.start >= RubyLayout::kPageHeader &&
           page.slot_bytes % 8 == 0 && page.slot_bytes >= RubyLayout::kLeastSlot &&
           page.slot_bytes <= kLargestSlot && page.slots != 0 && end <= layout_.page_bytes;
  }
  // The list is in order of where they are. One that is just being added may be there twice.
  void add(RubyPage& page, RubyPages& found) {
    if (!found.all.empty() && page.body <= found.all.back().body) {
      ++found.damaged;
      return;
    }
    if (page.is_unswept) {
      page.marks = found.marks.size();
      found.marks.resize(page.marks + layout_.mark_bytes() / 8);
      const auto bits = std::as_writable_bytes(std::span(found.marks).subspan(page.marks));
      if (!memory_.read_exact(page.header + layout_.page_mark_bits, bits)) {
        found.marks.resize(page.marks);
        ++found.damaged;
        return;
      }
    }
    found.all.push_back(page);
  }

  MemoryReader& memory_;
  const RubyLayout& layout_;
  size_t size_;
  std::vector<std::byte> headers_;
  std::vector<bool> known_;
  std::vector<RubyPage> pages_;
};

}  // namespace

uint64_t ruby_page_distance(const RubyLayout& layout) {
  return std::bit_ceil(layout.page_bytes);
}

RubyPages find_ruby_pages(Target& target, const RubyLayout& layout, Address space) {
  constexpr size_t kTogether = 1 << 12;
  MemoryReader& memory = target.memory();
  RubyPages found;
  const auto flags = memory.read_value<uint32_t>(space + layout.space_flags);
  if (!flags) return {{}, {}, 0, {}, "its object space cannot be read"};
  const uint32_t mode = *flags & RubyLayout::kCollectorMode;
  if (mode == RubyLayout::kCollectorMode) {
    return {{}, {}, 0, {}, "its collector is in no state that Ruby knows"};
  }
  if (mode != 0) found.collector = mode == 1 ? "marking" : "sweeping";
  const PageArray array = find_array(memory, layout, space);
  if (array.count == 0 || array.count > kMostPages) {
    return {{}, {}, 0, {}, "its object space has no list of pages"};
  }
  PageHeaders headers(target, layout);
  std::vector<Address> places;
  uint64_t listed = 0;
  while (listed < array.count) {
    std::vector<uint64_t> words(std::min<uint64_t>(kTogether, array.count - listed));
    const size_t got =
        memory.read(array.at + listed * 8, std::as_writable_bytes(std::span(words))) / 8;
    places.clear();
    for (const uint64_t word : std::span(words).first(got)) places.push_back(Address(word));
    headers.read(places, found);
    listed += got;
    if (got < words.size()) return {{}, {}, 0, {}, "its list of pages cannot be read"};
  }
  // Some may be in the making. A list of something else fits nowhere.
  if (found.damaged > array.count / 4) {
    return {{},
            {},
            0,
            {},
            std::to_string(found.damaged) + " of the " + std::to_string(array.count) +
                " pages in its list are none"};
  }
  return found;
}

}  // namespace heapsnap
