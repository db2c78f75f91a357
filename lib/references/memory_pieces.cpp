#include "references/memory_pieces.h"

#include <algorithm>
#include <utility>

#include "base/alteration.h"

namespace heapsnap {

MemoryPieces::MemoryPieces(Target& target, uint64_t most, size_t kept)
    : target_(target),
      residency_(target.residency()),
      page_size_(residency_.page_size()),
      states_(kMostBytes / page_size_ + 2) {
  if (target.is_mapped_here()) return;
  const uint64_t size = std::min(kMostBytes, most);
  all_bytes_ = LargeArray<std::byte, Pages::kSmall>(size + kept * kMostBytes);
  bytes_ = all_bytes_.span().first(size);
  unused_ = all_bytes_.span().subspan(size);
}

void MemoryPieces::read(const AddressRange& range, const Receive& receive) {
  Address at = range.begin;
  while (at < range.end) {
    check_end();
    const AddressRange readable = target_.memory().next_readable({at, range.end});
    if (readable.is_empty()) {
      bytes_unreadable_ += range.end - at;
      return;
    }
    const Address first = std::max(at, readable.begin);
    bytes_unreadable_ += first - at;
    at = std::min(std::min(first.align_down(page_size_) + kMostBytes, readable.end), range.end);
    if (at <= first) return;

    const Address first_page = first.align_down(page_size_);
    const uint64_t pages = (at.align_up(page_size_) - first_page) / page_size_;
    const std::span<PageState> states = std::span(states_).first(pages);
    residency_.read(first_page, states);
    const auto is_there = [&](uint64_t page) {
      return states[page] != PageState::kAbsent && states[page] != PageState::kSwapped;
    };
    for (uint64_t page = 0; page < pages;) {
      uint64_t last = page + 1;
      while (last < pages && is_there(last) == is_there(page)) ++last;
      const AddressRange run{std::max(first, first_page + page * page_size_),
                             std::min(at, first_page + last * page_size_)};
      if (is_there(page)) {
        read_present(run, receive);
      } else {
        const auto swapped =
            std::count(states.begin() + static_cast<ptrdiff_t>(page),
                       states.begin() + static_cast<ptrdiff_t>(last), PageState::kSwapped);
        bytes_in_swap_ += static_cast<uint64_t>(swapped) * page_size_;
      }
      page = last;
    }
    const bool is_absent = std::all_of(states.begin(), states.end(),
                                       [](PageState state) { return state == PageState::kAbsent; });
    const AddressRange rest{at, std::min(readable.end, range.end)};
    if (is_absent && !rest.is_empty()) at = std::max(at, leap(rest));
  }
}

void MemoryPieces::exchange(std::span<std::byte>& bytes) {
  std::swap(bytes_, bytes);
  if (!bytes_.empty()) return;
  bytes_ = unused_.first(kMostBytes);
  unused_ = unused_.subspan(kMostBytes);
}

// To where pages may be there, out of a page that `range` begins in.
Address MemoryPieces::leap(AddressRange range) {
  const AddressRange pages{range.begin.align_up(page_size_), range.end.align_down(page_size_)};
  return pages.is_empty() ? range.begin : residency_.absent_until(pages);
}

void MemoryPieces::read_present(AddressRange range, const Receive& receive) {
  while (!range.is_empty()) {
    size_t got = 0;
    if (target_.is_mapped_here()) {
      const auto mapped = target_.mapped_bytes(range.begin);
      got = std::min<uint64_t>(mapped.size(), range.size());
      if (got != 0) receive(range.begin, mapped.first(got));
    } else {
      const std::span<std::byte> piece = bytes_.first(range.size());
      got = target_.memory().read(range.begin, piece);
      if (got != 0) receive(range.begin, piece.first(got));
    }
    bytes_read_ += got;
    range.begin += got;
    if (range.is_empty()) return;
    // The rest of a page that cannot be read.
    const Address next = std::min(range.end, (range.begin + 1).align_up(page_size_));
    if (got == 0) {
      bytes_unreadable_ += next - range.begin;
      range.begin = next;
    }
  }
}

}  // namespace heapsnap
