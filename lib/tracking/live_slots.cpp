#include "tracking/live_slots.h"

#include <algorithm>

namespace heapsnap {

namespace {

constexpr uint64_t kSlotSize = sizeof(uint32_t);
constexpr uint64_t kLeafSize = tracker::kLeafSlots * kSlotSize;
constexpr uint64_t kLargestWindow = 256 << 10;
// A gap that is cheaper to read than to read around.
constexpr uint64_t kSmallGap = 4096;

}  // namespace

LiveSlots::LiveSlots(MemoryReader& memory, PageResidency& residency, const AddressSpace& space,
                     const tracker::Directory& directory)
    : memory_(memory),
      residency_(residency),
      space_(space),
      root_(directory.live_root),
      root_entries_(std::min(directory.live_root_entries, tracker::kRootEntries)) {
  if (root_.is_null() || root_entries_ * sizeof(uint64_t) > ~root_.value()) root_entries_ = 0;
}

Address LiveSlots::slot_address(Address block) {
  const uint64_t index = block.value() >> tracker::kLeafShift;
  if (index >= root_entries_) return Address();
  if (index != leaf_index_) {
    const auto word = memory_.read_value<uint64_t>(root_ + index * sizeof(uint64_t));
    leaf_index_ = index;
    leaf_ = Address(word.value_or(0));
    if (!leaf_.is_aligned(kSlotSize) || kLeafSize > ~leaf_.value()) leaf_ = Address();
    const Mapping* const mapping = space_.find(leaf_);
    leaf_is_private_ = mapping != nullptr && !mapping->shared;
  }
  if (leaf_.is_null()) return Address();
  const uint64_t slot = (block.value() >> tracker::kGranuleShift) & (tracker::kLeafSlots - 1);
  return leaf_ + slot * kSlotSize;
}

void LiveSlots::read_present(Address from, std::span<std::byte> out) {
  const uint64_t page_size = residency_.page_size();
  const Address first = from.align_down(page_size);
  if (leaf_is_private_) {
    states_.resize(((from + out.size()).align_up(page_size) - first) / page_size);
    residency_.read(first, states_);
  } else {
    states_.assign(((from + out.size()).align_up(page_size) - first) / page_size,
                   PageState::kUnknown);
  }
  std::fill(out.begin(), out.end(), std::byte{});
  for (size_t page = 0; page < states_.size();) {
    size_t end = page + 1;
    const bool absent = states_[page] == PageState::kAbsent;
    while (end < states_.size() && (states_[end] == PageState::kAbsent) == absent) ++end;
    if (!absent) {
      const Address begin = std::max(from, first + page * page_size);
      const Address past = std::min(from + out.size(), first + end * page_size);
      const auto part = out.subspan(begin - from, past - begin);
      const size_t got = memory_.read(begin, part);
      std::fill(part.begin() + static_cast<ptrdiff_t>(got), part.end(), std::byte{});
    }
    page = end;
  }
}

void LiveSlots::read_window(std::span<const Address> blocks) {
  const Address begin = slot_address(blocks.front());
  const uint64_t leaf_of_window = leaf_index_;
  Address end = begin + kSlotSize;
  for (const Address block : blocks.subspan(1)) {
    if (block.value() >> tracker::kLeafShift != leaf_of_window) break;
    const Address slot = slot_address(block);
    if (slot < begin || slot - begin >= kLargestWindow) break;
    if (slot > end + kSmallGap) break;
    end = std::max(end, slot + kSlotSize);
  }
  window_begin_ = begin;
  window_.resize((end - begin) / kSlotSize);
  read_present(begin, std::as_writable_bytes(std::span(window_)));
}

void LiveSlots::look_up(std::span<const Address> blocks, std::span<uint32_t> slots) {
  window_.clear();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Address slot = slot_address(blocks[i]);
    if (slot.is_null()) {
      slots[i] = tracker::kEmptySlot;
      continue;
    }
    if (slot < window_begin_ || (slot - window_begin_) / kSlotSize >= window_.size()) {
      read_window(blocks.subspan(i));
    }
    slots[i] = window_[(slot - window_begin_) / kSlotSize];
  }
}

}  // namespace heapsnap
