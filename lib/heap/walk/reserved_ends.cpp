#include "heap/walk/reserved_ends.h"

#include <algorithm>

namespace heapsnap {

void mark_reserved_ends(std::vector<Mapping>& mappings, std::span<const HeapSegment> segments,
                        unsigned word) {
  // HEAP_MAX_SIZE of heaps in pages of the usual size. A heap that has grown so far has no more
  // reserved, and what lies behind it is something else.
  const uint64_t whole = word == 4 ? 1ULL << 20 : 64ULL << 20;
  for (const HeapSegment& segment : segments) {
    if (segment.kind != SegmentKind::kThreadHeap) continue;
    const auto heap =
        std::upper_bound(mappings.begin(), mappings.end(), segment.range.begin,
                         [](Address at, const Mapping& mapping) { return at < mapping.range.end; });
    if (heap == mappings.end() || std::next(heap) == mappings.end()) continue;
    Mapping& behind = *std::next(heap);
    if (behind.range.begin == heap->range.end && behind.is_anonymous() && behind.path.empty() &&
        !behind.writable && !behind.executable &&
        behind.range.begin.align_down(whole) != behind.range.begin) {
      behind.readable = false;
    }
  }
}

}  // namespace heapsnap
