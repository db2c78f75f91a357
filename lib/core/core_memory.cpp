#include "core/core_memory.h"

#include <algorithm>
#include <cstring>

namespace heapsnap {

std::span<const std::byte> CoreMemory::bytes_at(Address address) {
  if (last_ >= regions_.size() || !regions_[last_].range.contains(address)) {
    const auto after = std::upper_bound(
        regions_.begin(), regions_.end(), address,
        [](Address wanted, const CoreRegion& region) { return wanted < region.range.begin; });
    if (after == regions_.begin()) return {};
    last_ = static_cast<size_t>(after - regions_.begin()) - 1;
    if (!regions_[last_].range.contains(address)) return {};
  }
  const CoreRegion& region = regions_[last_];
  const uint64_t offset = address - region.range.begin;
  if (offset < region.claimed) return clipped(region.dumped, offset, UINT64_MAX);
  return clipped(region.from_file, offset, UINT64_MAX);
}

size_t CoreMemory::read(Address from, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const auto bytes = bytes_at(from + done);
    if (bytes.empty()) break;
    const size_t count = std::min(bytes.size(), out.size() - done);
    std::memcpy(out.data() + done, bytes.data(), count);
    done += count;
  }
  return done;
}

AddressRange CoreMemory::next_readable(AddressRange range) {
  auto region = std::partition_point(
      regions_.begin(), regions_.end(),
      [&range](const CoreRegion& each) { return each.range.end <= range.begin; });
  for (; region != regions_.end() && region->range.begin < range.end; ++region) {
    const Address end =
        region->range.begin + std::max(region->dumped.size(), region->from_file.size());
    const AddressRange part{std::max(range.begin, region->range.begin), std::min(range.end, end)};
    if (!part.is_empty()) return part;
  }
  return {range.end, range.end};
}

void CoreResidency::read(Address first_page, std::span<PageState> out) {
  const Mapping* mapping = nullptr;
  for (size_t i = 0; i < out.size(); ++i) {
    const Address page = first_page + i * page_size_;
    if (mapping == nullptr || !mapping->range.contains(page)) mapping = address_space_.find(page);
    out[i] = mapping == nullptr ? PageState::kAbsent : PageState::kUnknown;
  }
}

}  // namespace heapsnap
