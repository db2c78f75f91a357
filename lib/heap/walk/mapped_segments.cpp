#include "heap/walk/mapped_segments.h"

#include <algorithm>

#include "heap/walk/anonymous_memory.h"
#include "heap/walk/chunk_chain.h"
#include "heap/walk/page_heads.h"

namespace heapsnap {
namespace {

class SegmentFinder {
 public:
  SegmentFinder(Target& target, PageCache& cache, const ChunkFormat& format, const Arena& arena,
                int32_t index)
      : cache_(cache),
        chain_(cache, target.residency(), format),
        format_(format),
        arena_(arena),
        index_(index),
        page_size_(std::max<uint64_t>(target.process().page_size, 4096)) {}

  // The segment that begins at `page`, in memory that ends at `end`.
  std::optional<HeapArea> segment_at(Address page, Address end) {
    const Address first = format_.align_up(page);
    const auto field = cache_.word(first + format_.word, format_.word);
    const auto previous = cache_.word(first, format_.word);
    // Nothing is before the first chunk, so nobody ever wrote its prev_size.
    if (!field || previous != 0 || (*field & ChunkFormat::kFlags) != ChunkFormat::kPreviousInUse) {
      return std::nullopt;
    }
    const bool may_reach_top = first <= arena_.top && arena_.top < end;
    ChainGoal goal;
    goal.limit = may_reach_top ? arena_.top : end;
    goal.needs_fence = !may_reach_top;
    const Chain chain = chain_.follow(first, goal, ~0ULL);

    HeapArea area;
    area.first_chunk = first;
    area.arena = index_;
    area.kind = SegmentKind::kMapped;
    area.system.begin = page;
    if (chain.end == ChainEnd::kFence) {
      area.system.end = chain.at.align_up(page_size_);
      // Sizes are multiples of the alignment, so up to 8 bytes may be left behind the fence.
      if (area.system.end - chain.at >= format_.alignment) return std::nullopt;
    } else if (chain.end == ChainEnd::kLimit) {
      const auto top = cache_.word(arena_.top + format_.word, format_.word);
      const uint64_t size = top ? format_.size_of(*top) : 0;
      if (size < format_.min_size || size > end - arena_.top) return std::nullopt;
      area.top = arena_.top;
      area.system.end = arena_.top + size;
    } else {
      return std::nullopt;
    }
    area.reserved = area.system;
    return area;
  }

 private:
  PageCache& cache_;
  ChunkChain chain_;
  ChunkFormat format_;
  const Arena& arena_;
  int32_t index_;
  uint64_t page_size_;
};

}  // namespace

std::vector<HeapArea> find_mapped_segments(Target& target, PageCache& cache,
                                           const ChunkFormat& format, const Arena& arena,
                                           int32_t index, const std::vector<HeapArea>& known,
                                           uint64_t in_brk) {
  const AnonymousMemory memory(target, known);
  SegmentFinder finder(target, cache, format, arena, index);
  PageHeads heads(target);

  // Where top is first, then small places: the search ends as soon as system_mem is reached, mostly
  // before it comes to mappings that are large and somebody else's.
  std::vector<AnonymousMemory::Place> places = memory.places();
  std::stable_sort(places.begin(), places.end(), [&](const auto& a, const auto& b) {
    const bool a_has_top = a.range.contains(arena.top);
    const bool b_has_top = b.range.contains(arena.top);
    return a_has_top != b_has_top ? a_has_top : a.range.size() < b.range.size();
  });

  const uint64_t wanted = arena.system_mem > in_brk ? arena.system_mem - in_brk : 0;
  std::vector<HeapArea> found;
  uint64_t sum = 0;
  for (const auto& place : places) {
    if (place.kind != AnonymousMemory::Kind::kWritable) continue;
    heads.scan(place.range, [&](Address page, PageHeads::Head) {
      if (sum != 0 && sum == wanted) return place.range.end;
      const auto segment = finder.segment_at(page, place.range.end);
      if (!segment || segment->system.size() > arena.system_mem - sum) return page + 1;
      sum += segment->system.size();
      found.push_back(*segment);
      return segment->system.end;
    });
  }
  return found;
}

}  // namespace heapsnap
