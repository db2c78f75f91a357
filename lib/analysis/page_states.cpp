#include "analysis/page_states.h"

#include <algorithm>

namespace heapsnap {

PageStates::PageStates(const SnapshotStreams& streams, Address from, size_t max_runs)
    : covered_{from, Address(UINT64_MAX)} {
  append(Address(), kOutside);
  append(from, static_cast<unsigned>(PageState::kUnknown));
  Address end = from;  // of what the entries describe
  bool full = false;
  const auto receive = [&](const PageRun& run) {
    const Address begin = std::max(run.range.begin.align_up(kColumnMask + 1), end);
    const Address run_end = run.range.end.align_down(kColumnMask + 1);
    if (full || run_end <= begin || run.state > PageState::kResidentHuge) return;
    if (entries_.size() >= max_runs) {
      full = true;
      covered_.end = end;
      return;
    }
    append(end, static_cast<unsigned>(PageState::kUnknown));
    append(begin, static_cast<unsigned>(run.state));
    end = run_end;
    knows_a_state_ |= run.state != PageState::kUnknown;
  };
  if (streams.read_pages) streams.read_pages(receive);
  append(end, full ? kOutside : static_cast<unsigned>(PageState::kUnknown));
}

void PageStates::append(Address begin, unsigned column) {
  if (!entries_.empty()) {
    if ((entries_.back() & ~kColumnMask) == begin.value()) entries_.pop_back();
    if (!entries_.empty() && (entries_.back() & kColumnMask) == column) return;
  }
  entries_.push_back(begin.value() | column);
}

PageStates::Piece PageStates::piece(size_t index) const {
  const uint64_t end =
      index + 1 < entries_.size() ? entries_[index + 1] & ~kColumnMask : UINT64_MAX;
  return {{Address(entries_[index] & ~kColumnMask), Address(end)},
          static_cast<unsigned>(entries_[index] & kColumnMask)};
}

PageStates::Piece PageStates::Cursor::at(Address address) {
  Piece found = map_->piece(index_);
  if (found.range.contains(address)) return found;
  if (address >= found.range.end && index_ + 1 < map_->entries_.size()) {
    found = map_->piece(index_ + 1);
    if (found.range.contains(address)) {
      ++index_;
      return found;
    }
  }
  const auto after =
      std::upper_bound(map_->entries_.begin(), map_->entries_.end(), address.value() | kColumnMask);
  index_ = static_cast<size_t>(after - map_->entries_.begin()) - 1;
  return map_->piece(index_);
}

PageBytes PageStates::Cursor::bytes_in(AddressRange range) {
  PageBytes bytes;
  while (range.begin < range.end) {
    const Piece piece = at(range.begin);
    // The very last address of all belongs to no piece.
    const Address end = std::min(range.end, std::max(piece.range.end, range.begin + 1));
    if (piece.column != kOutside) {
      bytes.add(static_cast<PageState>(piece.column), end - range.begin);
    }
    range.begin = end;
  }
  return bytes;
}

}  // namespace heapsnap
