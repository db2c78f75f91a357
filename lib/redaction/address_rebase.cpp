#include "redaction/address_rebase.h"

#include <algorithm>

#include "base/error.h"

namespace heapsnap {

namespace {

constexpr uint64_t kFirst = 256U << 20;
constexpr uint64_t kGap = 1U << 20;
// The largest unit of the heaps that analysis/language_runtime.h recognizes.
constexpr uint64_t kKeptRemainder = 256U << 10;
constexpr uint64_t kMost = uint64_t{1} << 63;
// New pieces that are kept apart from the merged ones until there are so many.
constexpr size_t kMostUnmerged = 1U << 16;

}  // namespace

void AddressRebase::add(const AddressRange& range) {
  if (range.is_empty()) return;
  const Address begin = range.begin.align_down(page_size_);
  const Address last = Address(range.end.value() - 1).align_down(page_size_) + (page_size_ - 1);
  const auto merged_end = pieces_.begin() + static_cast<ptrdiff_t>(merged_);
  const auto after =
      std::upper_bound(pieces_.begin(), merged_end, begin,
                       [](Address address, const Piece& piece) { return address < piece.begin; });
  if (after != pieces_.begin() && last <= std::prev(after)->last) return;
  if (merged_ != pieces_.size() && pieces_.back().begin <= begin && last <= pieces_.back().last) {
    return;
  }
  pieces_.push_back({begin, last, {}});
  if (pieces_.size() - merged_ > std::max(kMostUnmerged, merged_)) merge();
}

void AddressRebase::add(Address address) {
  // The last address of all cannot begin a half-open range: its page's first one stands for it.
  if (!address.is_null())
    add(AddressRange{address.align_down(page_size_), address.align_down(page_size_) + 1});
}

void AddressRebase::merge() {
  std::sort(pieces_.begin(), pieces_.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  size_t kept = 0;
  for (const Piece& piece : pieces_) {
    // A piece that reaches the end of the address space has nothing behind it.
    if (kept != 0 &&
        (piece.begin <= pieces_[kept - 1].last || piece.begin - pieces_[kept - 1].last == 1)) {
      pieces_[kept - 1].last = std::max(pieces_[kept - 1].last, piece.last);
    } else {
      pieces_[kept++] = piece;
    }
  }
  pieces_.resize(kept);
  merged_ = kept;
}

void AddressRebase::lay_out() {
  merge();
  const uint64_t unit = std::max(kKeptRemainder, page_size_);
  uint64_t next = kFirst;
  for (Piece& piece : pieces_) {
    next = Address(next).align_up(unit).value() + piece.begin.value() % unit;
    const uint64_t size = piece.last - piece.begin + 1;  // 0: all of the address space
    if (size == 0 || next > kMost || size > kMost - next) {
      throw Error(ErrorKind::kBadInput, "cannot rebase addresses",
                  "the memory that the snapshot names is larger than a process can have");
    }
    piece.moved = Address(next);
    next += size + kGap;
  }
}

const AddressRebase::Piece* AddressRebase::piece_of(Address address) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), address,
                       [](Address wanted, const Piece& piece) { return wanted < piece.begin; });
  if (after == pieces_.begin()) return nullptr;
  const Piece& piece = *std::prev(after);
  // The end of a range is the address behind its last one, and nobody else's: pieces are apart.
  const bool is_in = address <= piece.last || address - piece.last == 1;
  return is_in ? &piece : nullptr;
}

Address AddressRebase::operator()(Address address) const {
  if (address.is_null()) return {};
  const Piece* const piece = piece_of(address);
  return piece == nullptr ? Address() : piece->moved + (address - piece->begin);
}

AddressRange AddressRebase::operator()(const AddressRange& range) const {
  const Address begin = (*this)(range.begin);
  return {begin, begin + (range.end - range.begin)};
}

}  // namespace heapsnap
