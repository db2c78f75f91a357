#include "heap/walk/memory_window.h"

#include <algorithm>

#include "base/alteration.h"

namespace heapsnap {

MemoryWindow::MemoryWindow(Target& target)
    : memory_(target.memory()),
      residency_(target.residency()),
      page_size_(std::max<uint64_t>(target.residency().page_size(), 4096)),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(kLargest)) {}

size_t MemoryWindow::move_to(Address at, Address limit) {
  check_end();
  // A walk that skips less than was read for it goes on as before.
  const bool goes_on = size_ != 0 && begin_ <= at && (at <= end() || at - end() < size_);
  ahead_ = goes_on ? std::min(ahead_ * 2, kLargest) : kSmallest;
  // Up to the end of a page, so that no page is read twice.
  const uint64_t wanted = limit <= at ? 0 : std::min(ahead_ - at.value() % 4096, limit - at);
  begin_ = at;
  size_ = 0;
  if (wanted != 0) size_ = memory_.read(at, {bytes_.get(), readable_ahead(at, wanted)});
  return size_;
}

uint64_t MemoryWindow::readable_ahead(Address at, uint64_t wanted) {
  const Address next_page = at.align_down(page_size_) + page_size_;
  const uint64_t first = next_page - at;
  if (wanted <= first) return wanted;
  states_.resize((wanted - first + page_size_ - 1) / page_size_);
  residency_.read(next_page, states_);
  uint64_t readable = first;
  for (const PageState state : states_) {
    if (state == PageState::kAbsent || state == PageState::kSwapped) break;
    readable += page_size_;
  }
  return std::min(wanted, readable);
}

}  // namespace heapsnap
