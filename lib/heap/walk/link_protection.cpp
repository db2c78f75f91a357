#include "heap/walk/link_protection.h"

#include "heap/chunk_format.h"

namespace heapsnap {

std::optional<bool> are_links_protected(PageCache& cache, const MallocLayout& layout,
                                        const HeapAreas& areas,
                                        std::span<const ThreadCache> caches) {
  const ChunkFormat format(layout);
  const auto is_link = [&](uint64_t value) {
    const Address memory = format.pointer(value);
    if (memory.is_null()) return true;
    return format.is_aligned(memory - format.header) && areas.find(memory) != nullptr;
  };
  uint64_t plain = 0;
  uint64_t is_protected = 0;
  for (const ThreadCache& thread : caches) {
    if (thread.tcache.is_null()) continue;
    for (unsigned bin = 0; bin < layout.tcache.bins; ++bin) {
      const Address entry = thread.tcache + layout.tcache.entries + bin * layout.word;
      const Address head = format.pointer(cache.word(entry, layout.word).value_or(0));
      if (head.is_null() || areas.find(head) == nullptr) continue;
      const auto raw = cache.word(head, layout.word);
      if (!raw) continue;
      const bool fits_plain = is_link(*raw);
      const bool fits_protected = is_link(*raw ^ (head.value() >> 12));
      if (fits_plain && !fits_protected) ++plain;
      if (fits_protected && !fits_plain) ++is_protected;
    }
  }
  if (plain == is_protected) return std::nullopt;
  return is_protected > plain;
}

}  // namespace heapsnap
