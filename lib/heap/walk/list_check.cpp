#include "heap/walk/list_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/byte_reader.h"
#include "heap/corruption_log.h"

namespace heapsnap {

namespace {

constexpr unsigned kUnsorted = 1;
constexpr unsigned kFirstLarge = 64;
// Bytes that are read along with a chunk's head: mostly, its neighbours begin there.
constexpr uint64_t kNear = 2048;

// largebin_index_64(); small bins are the sixteenth of their size.
unsigned bin_of(const ChunkFormat& format, uint64_t size) {
  if (size < format.min_large_size) return static_cast<unsigned>(size / format.alignment);
  struct Range {
    unsigned shift, most, base;
  };
  constexpr std::array<Range, 5> kRanges{
      {{6, 48, 48}, {9, 20, 91}, {12, 10, 110}, {15, 4, 119}, {18, 2, 124}}};
  for (const Range& range : kRanges) {
    if (size >> range.shift <= range.most) {
      return range.base + static_cast<unsigned>(size >> range.shift);
    }
  }
  return 126;
}

std::string bin_name(unsigned bin) {
  if (bin == kUnsorted) return "the unsorted list";
  return (bin < kFirstLarge ? "small bin " : "large bin ") + std::to_string(bin);
}

}  // namespace

// A large bin is sorted, the largest first; the first chunks of each size are a ring of their own.
class ListCheck::LargeOrder {
 public:
  explicit LargeOrder(const ListCheck& check) : check_(check) {}

  Damage add(Address chunk, const Head& head, uint64_t size) {
    const Address next = check_.format_.pointer(head.next_size);
    if (size > last_size_) {
      return check_.damage(chunk + check_.format_.word,
                           "the chunk at " + hex(chunk) + " of size " + hex(size) +
                               " is listed behind a smaller one in its large bin");
    }
    const bool is_first_of_size = size != last_size_;
    last_size_ = size;
    if (!is_first_of_size && next.is_null()) return {};
    if (first_.is_null()) {
      first_ = chunk;
      first_back_ = check_.format_.pointer(head.previous_of_next_size);
    } else if (!is_first_of_size || expected_ != chunk ||
               check_.format_.pointer(head.previous_of_next_size) != last_) {
      return broken(chunk);
    }
    if (next.is_null()) return broken(chunk);
    last_ = chunk;
    expected_ = next;
    return {};
  }
  Damage finish() const {
    if (first_.is_null() || (expected_ == first_ && first_back_ == last_)) return {};
    return broken(last_);
  }

 private:
  Damage broken(Address chunk) const {
    return check_.damage(chunk + 4ULL * check_.format_.word,
                         "the links by size of the free chunk at " + hex(chunk) + " are damaged");
  }

  const ListCheck& check_;
  uint64_t last_size_ = ~0ULL;
  Address first_;
  Address first_back_;
  Address last_;
  Address expected_;
};

ListCheck::ListCheck(MemoryReader& memory, const MallocLayout& layout, const HeapAreas& areas,
                     const Arena& arena, int32_t index)
    : memory_(memory),
      layout_(layout),
      format_(layout),
      areas_(areas),
      arena_(arena),
      index_(index),
      system_mem_(arena.system_mem),
      top_(arena.top) {
  uint64_t bytes = 0;
  for (const HeapArea& area : areas.all()) {
    if (area.arena == index) bytes += area.system.size();
  }
  most_chunks_ = bytes / format_.min_size;
}

ListCheck::Damage ListCheck::damage(Address where, std::string what) const {
  Corruption found;
  found.where = where;
  found.arena = index_;
  found.what = std::move(what);
  return found;
}

Address ListCheck::bin_chunk(unsigned bin) const {
  return arena_.address + layout_.state.bins + 2ULL * format_.word * (bin - 1) - format_.header;
}

bool ListCheck::is_in_arena(Address chunk, uint64_t size) const {
  const HeapArea* const area = areas_.find(chunk);
  return format_.is_aligned(chunk) && area != nullptr && area->arena == index_ &&
         chunk >= area->first_chunk && area->system.contains(chunk, size);
}

ListCheck::Damage ListCheck::check_top() {
  constexpr uint64_t kPageSize = 4096;
  const Address field = top_ + format_.word;
  const auto size_field = is_in_arena(top_, format_.header) ? word(field) : std::nullopt;
  if (!size_field) {
    return damage(arena_.address + layout_.state.top,
                  "the top chunk is said to be at " + hex(top_) + ", not in a heap of this arena");
  }
  const uint64_t size = format_.size_of(*size_field);
  const HeapArea& area = *areas_.find(top_);
  const bool fits = size >= format_.min_size && size <= system_mem_ &&
                    area.system.contains(top_, size) && (top_ + size).is_aligned(kPageSize);
  const bool is_at_end = arena_.is_main || top_ + size == area.system.end;
  if (!fits || !is_at_end) {
    return damage(field, "the top chunk at " + hex(top_) + " has size " + hex(size) +
                             ", which does not fit its heap");
  }
  if ((*size_field & ChunkFormat::kPreviousInUse) == 0) {
    return damage(field, "the top chunk at " + hex(top_) + " is marked as behind a free chunk");
  }
  return {};
}

ListCheck::Damage ListCheck::check_fastbin(unsigned number) {
  const uint64_t size = (number + 2) * format_.header;
  Address from = arena_.address + layout_.state.fastbins + uint64_t{number} * format_.word;
  const auto first = word(from);
  if (!first) return damage(from, "a fastbin cannot be read");
  Address chunk = format_.pointer(*first);
  // In a circle, the list comes back to where it was when the number of steps was last a power of
  // two (Brent, "An improved Monte Carlo factorization algorithm", BIT 20 (1980)).
  Address seen;
  for (uint64_t steps = 1; !chunk.is_null(); ++steps) {
    const bool is_circle = chunk == seen || steps > most_chunks_;
    if (std::has_single_bit(steps)) seen = chunk;
    const auto head = read_chunk(chunk, size);
    if (!head || is_circle) {
      return damage(from, "fastbin " + std::to_string(number) + " links to " + hex(chunk) +
                              (head ? ", in a circle" : ", not a chunk of this arena"));
    }
    if (auto found = check_fast_chunk(chunk, *head, size)) return found;
    if (auto found = check_neighbours(chunk, size, true)) return found;
    from = chunk + format_.header;
    const uint64_t mask = layout_.safe_linking ? from.value() >> 12 : 0;
    chunk = format_.pointer(head->forward ^ mask);
  }
  return {};
}

ListCheck::Damage ListCheck::check_fast_chunk(Address chunk, const Head& head, uint64_t size) {
  const uint64_t flags = head.size & (ChunkFormat::kMmapped | ChunkFormat::kNonMainArena);
  if (format_.size_of(head.size) != size ||
      flags != (arena_.is_main ? 0 : ChunkFormat::kNonMainArena)) {
    return damage(chunk + format_.word, "the chunk at " + hex(chunk) + " in the fastbin of " +
                                            hex(size) + " has the size field " + hex(head.size));
  }
  if ((head.size & ChunkFormat::kPreviousInUse) != 0) return {};
  const Address previous = chunk - head.previous_size;
  const auto previous_size =
      head.previous_size < system_mem_ && is_in_arena(previous, format_.min_size)
          ? word(previous + format_.word)
          : std::nullopt;
  if (!previous_size || format_.size_of(*previous_size) != head.previous_size) {
    return damage(chunk, "the free chunk before " + hex(chunk) + " has another size than " +
                             hex(head.previous_size));
  }
  return check_links(previous);
}

ListCheck::Damage ListCheck::check_bin(unsigned bin) {
  const Address bin_head = bin_chunk(bin);
  std::array<uint64_t, 2> ends{};
  if (!memory_.read_exact(bin_head + format_.header,
                          std::as_writable_bytes(std::span(ends.data(), ends.size())))) {
    return damage(bin_head + format_.header, bin_name(bin) + " cannot be read");
  }
  LargeOrder order(*this);
  Address previous = bin_head;
  Address chunk = format_.pointer(ends[0]);
  for (uint64_t steps = 0; chunk != bin_head; ++steps) {
    const auto head = read_chunk(chunk, format_.min_size);
    if (!head || steps > most_chunks_ || format_.pointer(head->back) != previous) {
      return damage(previous + format_.header,
                    bin_name(bin) + " links to " + hex(chunk) +
                        (head ? ", whose link back is " + hex(head->back)
                              : std::string(", not a chunk of this arena")));
    }
    const uint64_t size = format_.size_of(head->size);
    if (auto found = check_free_chunk(bin, chunk, *head)) return found;
    if (bin >= kFirstLarge) {
      if (auto found = order.add(chunk, *head, size)) return found;
    }
    if (auto found = check_neighbours(chunk, size, false)) return found;
    previous = chunk;
    chunk = format_.pointer(head->forward);
  }
  if (format_.pointer(ends[1]) != previous) {
    return damage(bin_head + format_.header + format_.word,
                  bin_name(bin) + " ends with " + hex(previous) + ", but is said to end with " +
                      hex(ends[1]));
  }
  return order.finish();
}

// A chunk is followed by another one's header at least, so all of Head can be read.
std::optional<ListCheck::Head> ListCheck::read_chunk(Address chunk, uint64_t least_size) {
  if (!is_in_arena(chunk, least_size + format_.header)) return std::nullopt;
  near_.resize(std::min(kNear, areas_.find(chunk)->system.end - chunk));
  near_.resize(memory_.read(chunk, near_));
  near_begin_ = chunk;
  Head head{};
  if (near_.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, near_.data(), sizeof head);
  return head;
}

std::optional<ListCheck::Border> ListCheck::border_at(Address chunk) {
  if (!fits_within(chunk - near_begin_, sizeof(Border), near_.size())) {
    return memory_.read_value<Border>(chunk);
  }
  Border border{};
  std::memcpy(&border, near_.data() + (chunk - near_begin_), sizeof border);
  return border;
}

ListCheck::Damage ListCheck::check_free_chunk(unsigned bin, Address chunk, const Head& head) const {
  const uint64_t size = format_.size_of(head.size);
  const uint64_t wrong = head.size & format_.impossible_bits(arena_.is_main);
  const bool is_in_use_before = (head.size & ChunkFormat::kPreviousInUse) != 0;
  if (wrong != 0 || !is_in_use_before || size < format_.min_size || size >= system_mem_ ||
      !is_in_arena(chunk, size) || (bin != kUnsorted && bin_of(format_, size) != bin)) {
    return damage(chunk + format_.word, "the chunk at " + hex(chunk) + " in " + bin_name(bin) +
                                            " has the size field " + hex(head.size));
  }
  // Only those in a large bin are linked by size; the links of others would be followed all the
  // same.
  if (bin == kUnsorted && size >= format_.min_large_size && head.next_size != 0) {
    return damage(chunk + 4ULL * format_.word,
                  "the unsorted chunk at " + hex(chunk) + " has links by size");
  }
  return {};
}

ListCheck::Damage ListCheck::check_neighbours(Address chunk, uint64_t size, bool is_fast) {
  const Address next = chunk + size;
  const auto border = border_at(next);
  if (!border) return damage(next, "the header at " + hex(next) + " cannot be read");
  const bool is_in_use = (border->size & ChunkFormat::kPreviousInUse) != 0;
  if (is_in_use != is_fast) {
    return damage(next + format_.word, "the chunk at " + hex(next) + " is marked as behind a " +
                                           (is_in_use ? "used" : "free") + " chunk, not " +
                                           (is_in_use ? "a free one" : "a used one"));
  }
  if (!is_fast && border->previous_size != size) {
    return damage(next, "the free chunk at " + hex(chunk) + " has size " + hex(size) +
                            " at its begin and " + hex(border->previous_size) + " at its end");
  }
  if (next == top_) return {};  // which is checked by itself
  const uint64_t next_size = format_.size_of(border->size);
  const Address after = next + next_size;
  const auto border_after = next_size >= format_.header && next_size <= system_mem_ &&
                                    next_size % format_.alignment == 0 &&
                                    is_in_arena(next, next_size + format_.header)
                                ? border_at(after)
                                : std::nullopt;
  if (!border_after) {
    return damage(next + format_.word,
                  "the chunk at " + hex(next) + " has the size field " + hex(border->size));
  }
  if ((border_after->size & ChunkFormat::kPreviousInUse) != 0) return {};
  if (!is_fast || border_after->previous_size != next_size) {
    return damage(after, "the chunk at " + hex(next) + " is marked as free, behind a free chunk");
  }
  return check_links(next);
}

ListCheck::Damage ListCheck::check_links(Address chunk) {
  Head head{};
  const auto leads_back = [this, chunk](uint64_t link, unsigned back) {
    const Address other = format_.pointer(link);
    const auto value = word(other + uint64_t{back} * format_.word);
    return value && format_.pointer(*value) == chunk;
  };
  if (!memory_.read_exact(chunk, std::as_writable_bytes(std::span(&head, 1))) ||
      !leads_back(head.forward, 3) || !leads_back(head.back, 2)) {
    return damage(chunk + format_.header,
                  "the links of the free chunk at " + hex(chunk) + " are damaged");
  }
  const bool has_sizes =
      format_.size_of(head.size) >= format_.min_large_size && head.next_size != 0;
  if (has_sizes && (!leads_back(head.next_size, 5) || !leads_back(head.previous_of_next_size, 4))) {
    return damage(chunk + 4ULL * format_.word,
                  "the links by size of the free chunk at " + hex(chunk) + " are damaged");
  }
  return {};
}

}  // namespace heapsnap
