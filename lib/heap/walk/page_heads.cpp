#include "heap/walk/page_heads.h"

#include <algorithm>

#include "base/alteration.h"

namespace heapsnap {

PageHeads::PageHeads(Target& target)
    : memory_(target.memory()),
      residency_(target.residency()),
      page_size_(std::max<uint64_t>(target.residency().page_size(), 4096)) {}

std::optional<std::array<std::byte, PageHeads::kHead>> PageHeads::at(Address page) {
  std::array<std::byte, kHead> head;
  if (!memory_.read_exact(page, head)) return std::nullopt;
  return head;
}

void PageHeads::scan(AddressRange range, const Visit& visit) {
  size_t ahead = 8;
  Address at = range.begin.align_up(page_size_);
  while (range.contains(at, page_size_)) {
    check_end();
    const AddressRange readable = memory_.next_readable({at, range.end});
    if (readable.is_empty()) return;
    // Aligned down: no page before `at`, which is aligned itself.
    at = readable.begin.align_down(page_size_);
    const size_t pages = std::min<uint64_t>({ahead, (range.end - at) / page_size_, pages_left_});
    if (pages == 0) return;
    pages_left_ -= pages;
    states_.resize(pages);
    residency_.read(at, states_);
    places_.clear();
    for (size_t i = 0; i < pages; ++i) {
      if (states_[i] != PageState::kAbsent) places_.push_back(at + i * page_size_);
    }
    heads_.resize(places_.size() * kHead);
    const Address end = at + pages * page_size_;

    Address next = at;
    size_t first = 0;
    while (first < places_.size()) {
      const auto wanted = std::span(places_).subspan(first);
      const size_t got =
          memory_.read_pieces(wanted, kHead, std::span(heads_).subspan(first * kHead));
      for (size_t i = first; i < first + got; ++i) {
        if (places_[i] < next) continue;
        next = std::max(visit(places_[i], Head(heads_.data() + i * kHead, kHead)),
                        places_[i] + page_size_);
      }
      first += got;
      if (first < places_.size()) ++first;  // the one that cannot be read
      if (next >= end) break;
    }
    ahead = next > end ? 8 : std::min(ahead * 2, kMostPages);
    if (next < at) return;  // past the end of the address space
    at = std::max(next, end);
  }
}

}  // namespace heapsnap
