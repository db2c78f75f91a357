#include "heap/walk/thread_heaps.h"

#include <algorithm>
#include <bit>

#include "heap/chunk_format.h"

namespace heapsnap {
namespace {

// By arena; those of one arena stay as they are.
std::vector<ThreadHeaps::Named> in_order(std::vector<ThreadHeaps::Named> heaps) {
  std::stable_sort(heaps.begin(), heaps.end(),
                   [](const auto& a, const auto& b) { return a.arena < b.arena; });
  return heaps;
}

}  // namespace

ThreadHeaps::ThreadHeaps(PageCache& cache, Target& target, const LocatedMalloc& malloc)
    : cache_(cache),
      space_(target.address_space()),
      residency_(target.residency()),
      layout_(malloc.layout) {
  const auto add = [this](uint64_t size) {
    if (size >= PageCache::kPageSize && std::has_single_bit(size) &&
        std::find(sizes_.begin(), sizes_.end(), size) == sizes_.end()) {
      sizes_.push_back(size);
    }
  };
  if (layout_.par.hp_pagesize != 0 && !malloc.instance.malloc_par.is_null()) {
    const auto page =
        cache_.word(malloc.instance.malloc_par + layout_.par.hp_pagesize, layout_.word);
    if (page && *page != 0 && *page <= (1ULL << 40)) add(4 * *page);
  }
  add(layout_.heap_max_size);
  add(layout_.word == 4 ? 1ULL << 20 : 64ULL << 20);
}

std::optional<ThreadHeaps::Named> ThreadHeaps::read(Address begin, uint64_t reserved) const {
  const auto& info = layout_.heap_info;
  const Mapping* const mapping = space_.find(begin);
  if (mapping == nullptr || !mapping->is_private_writable()) return std::nullopt;
  const auto arena = cache_.word(begin + info.ar_ptr, layout_.word);
  const auto previous = cache_.word(begin + info.prev, layout_.word);
  const auto size = cache_.word(begin + info.size, layout_.word);
  if (!arena || !previous || !size) return std::nullopt;
  if (*size <= info.total || *size > reserved || *size % PageCache::kPageSize != 0) {
    return std::nullopt;
  }
  const ChunkFormat format(layout_);
  return Named{{begin, format.pointer(*previous), *size, reserved}, format.pointer(*arena)};
}

std::optional<ThreadHeap> ThreadHeaps::find(Address inside, Address arena) const {
  for (const uint64_t reserved : sizes_) {
    const auto found = read(inside.align_down(reserved), reserved);
    if (found && found->arena == arena &&
        AddressRange{found->heap.begin, found->heap.begin + found->heap.size}.contains(inside)) {
      return found->heap;
    }
  }
  return std::nullopt;
}

std::optional<ThreadHeaps::Named> ThreadHeaps::holding(Address inside) const {
  for (const uint64_t reserved : sizes_) {
    const auto found = read(inside.align_down(reserved), reserved);
    if (found && find(inside, found->arena) && find(found->arena, found->arena)) return found;
  }
  return std::nullopt;
}

const std::vector<ThreadHeaps::Named>& ThreadHeaps::all() const {
  if (!all_) all_ = scan();
  return *all_;
}

std::span<const ThreadHeaps::Named> ThreadHeaps::all_of(Address arena) const {
  struct ByArena {
    bool operator()(const Named& named, Address wanted) const { return named.arena < wanted; }
    bool operator()(Address wanted, const Named& named) const { return wanted < named.arena; }
  };
  const auto [first, last] = std::equal_range(all().begin(), all().end(), arena, ByArena());
  return {first, last};
}

// A heap_info has been written. To read a page that was never touched would cost the target a page
// table, in each of thousands of places.
bool ThreadHeaps::is_absent(Address place) const {
  PageState state = PageState::kUnknown;
  residency_.read(place, std::span(&state, 1));
  return state == PageState::kAbsent;
}

std::vector<ThreadHeaps::Named> ThreadHeaps::scan() const {
  size_t places_left = 1 << 20;  // a terabyte of writable mappings would take long otherwise
  std::vector<Named> found;
  for (const uint64_t reserved : sizes_) {
    for (const Mapping& mapping : space_.mappings()) {
      if (!mapping.is_private_writable()) continue;
      for (Address at = mapping.range.begin.align_up(reserved); mapping.range.contains(at);
           at += reserved) {
        const AddressRange readable = cache_.next_readable({at, mapping.range.end});
        at = std::max(at, readable.begin.align_up(reserved));
        if (!mapping.range.contains(at)) break;
        const auto heap = is_absent(at) ? std::nullopt : read(at, reserved);
        // The first heap of an arena holds it; the others are taken when such a one names them.
        if (heap && find(heap->arena, heap->arena)) found.push_back(*heap);
        if (--places_left == 0) return in_order(std::move(found));
        if (at + reserved < at) break;
      }
    }
  }
  return in_order(std::move(found));
}

// _int_new_arena() puts the arena right behind the first heap_info and rounds up to the alignment.
Address ThreadHeaps::first_chunk(const ThreadHeap& heap, Address arena) const {
  Address first = heap.begin + layout_.heap_info.total;
  if (AddressRange{heap.begin, heap.begin + heap.size}.contains(arena)) {
    first = arena + layout_.state.size;
  }
  return ChunkFormat(layout_).align_up(first);
}

}  // namespace heapsnap
