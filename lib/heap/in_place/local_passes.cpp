#include "heap/in_place/local_passes.h"

#include <algorithm>

namespace heapsnap {

namespace {

constexpr size_t kChunksAtOnce = 16 << 10;
constexpr size_t kLinksAtOnce = 16 << 10;

}  // namespace

LocalPasses::LocalPasses(BytesAt bytes_at) : bytes_at_(std::move(bytes_at)), links_(kLinksAtOnce) {}

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

void LocalPasses::place_heaps(std::span<const AddressRange> heaps) {
  if (std::equal(heaps.begin(), heaps.end(), placed_heaps_.begin(), placed_heaps_.end())) return;
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

std::span<const ListedChunks> LocalPasses::follow(std::span<ListScan> lists,
                                                  std::span<const AddressRange> heaps) {
  if (lists.size() > kMostLists) return {};
  place_heaps(heaps);
  auto passes = links_.passes(lists);
  follow_lists(passes.data(), passes.size(), {memories_.data(), memories_.size()});
  return links_.told(passes, lists);
}

}  // namespace heapsnap
