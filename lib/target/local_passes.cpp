#include "target/local_passes.h"

#include <algorithm>

namespace heapsnap {

namespace {

constexpr size_t kChunksAtOnce = 16 << 10;
constexpr size_t kLinksAtOnce = 4 << 10;

}  // namespace

PlacedMemory LocalPasses::place(Address from) const {
  const std::span<const std::byte> bytes = bytes_at_(from);
  const uint64_t size = std::min<uint64_t>(bytes.size(), ~uint64_t{0} - from.value());
  return {from.value(), from.value() + size,
          reinterpret_cast<uint64_t>(bytes.data()) - from.value()};
}

std::span<const uint32_t> LocalPasses::scan(ChunkScan& scan) {
  chunks_.resize(kChunksAtOnce);
  return {chunks_.data(), scan_chunks(scan, place(scan.at), chunks_.data(), chunks_.size())};
}

ListedChunks LocalPasses::follow(ListScan& list, std::span<const AddressRange> heaps) {
  if (!std::equal(heaps.begin(), heaps.end(), placed_heaps_.begin(), placed_heaps_.end())) {
    placed_heaps_.assign(heaps.begin(), heaps.end());
    memories_.clear();
    for (const AddressRange& heap : heaps) {
      // Up to the first hole; what is behind that is read in the ordinary way.
      for (Address at = heap.begin; at < heap.end;) {
        PlacedMemory memory = place(at);
        memory.end = std::min(memory.end, heap.end.value());
        if (memory.end == memory.begin) break;
        memories_.push_back(memory);
        at = Address(memory.end);
      }
    }
  }
  links_.resize(kLinksAtOnce);
  const ListCounts counts =
      follow_list(list, memories_.data(), memories_.size(), links_.data(), links_.size());
  std::reverse(links_.end() - static_cast<ptrdiff_t>(counts.backward), links_.end());
  const std::span<const uint64_t> links(links_);
  return {links.first(counts.forward), links.last(counts.backward)};
}

}  // namespace heapsnap
