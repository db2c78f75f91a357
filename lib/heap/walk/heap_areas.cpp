#include "heap/walk/heap_areas.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "heap/chunk_format.h"
#include "heap/walk/chunk_chain.h"
#include "heap/walk/mapped_segments.h"
#include "heap/walk/thread_heaps.h"

namespace heapsnap {
namespace {

// The end of the run of mappings that begins with the one that holds `base`: lines of the same name
// (the kernel calls every piece of the brk area [heap]), or writable ones where there are no names.
Address end_of_run(const AddressSpace& space, Address base) {
  const Mapping* mapping = space.find(base);
  const Mapping* const last = space.mappings().data() + space.mappings().size() - 1;
  if (mapping->path != "[heap]") return space.writable_run(base).end;
  while (mapping != last && (mapping + 1)->path == mapping->path &&
         (mapping + 1)->range.begin == mapping->range.end) {
    ++mapping;
  }
  return mapping->range.end;
}

class AreaFinder {
 public:
  AreaFinder(Target& target, PageCache& cache, const LocatedMalloc& malloc, CorruptionLog& log)
      : target_(target),
        space_(target.address_space()),
        cache_(cache),
        malloc_(malloc),
        format_(malloc.layout),
        log_(log) {}

  // The brk area of the main arena; nothing when it has none.
  std::optional<HeapArea> brk_area(const Arena& arena, int32_t index) {
    bool is_guess = malloc_.instance.malloc_par.is_null();
    Address base;
    if (!is_guess) {
      const auto word = cache_.word(malloc_.instance.malloc_par + malloc_.layout.par.sbrk_base,
                                    malloc_.layout.word);
      base = format_.pointer(word.value_or(0));
      if (base.is_null()) return std::nullopt;  // nothing allocated yet
      if (!space_.find(base) || !space_.find(base)->is_private_writable()) {
        log_.add(base, index, -1, "mp_.sbrk_base is not in a writable mapping");
        is_guess = true;
      }
    }
    if (is_guess) {
      base = guess_base(arena);
      if (base.is_null()) return std::nullopt;
    }
    // When brk failed at the very first malloc, sbrk_base is the first mapping that replaced it.
    if (arena.is_noncontiguous && !is_break_area(base)) return std::nullopt;

    const AddressRange run{base, end_of_run(space_, base)};
    HeapArea area;
    area.arena = index;
    area.kind = SegmentKind::kBrk;
    area.system = run;
    if (run.contains(arena.top)) {
      area.top = arena.top;
      area.system.end = end_of_top(arena, index, run.end);
    }
    area.reserved = area.system;
    // With tunables, ld.so takes some odd bytes from sbrk first (2.26 to 2.34).
    area.first_chunk = format_.align_up(base);
    if (!area.system.contains(area.first_chunk, format_.header)) return std::nullopt;
    if (is_guess) skip_foreign_begin(area);
    return area;
  }

  std::vector<HeapArea> thread_areas(const ThreadHeaps& heaps, const Arena& arena, int32_t index) {
    std::vector<ThreadHeap> chain;
    std::unordered_set<Address> seen;
    uint64_t sum = 0;
    const auto take = [&](const ThreadHeap& heap) {
      if (!seen.insert(heap.begin).second) return false;
      chain.push_back(heap);
      sum += heap.size;
      return true;
    };

    Address next = arena.top;
    while (!next.is_null()) {
      const auto heap = heaps.find(next, arena.address);
      if (!heap || !take(*heap)) {
        log_.add(next, index, -1,
                 chain.empty() ? "top is not in a heap of this arena"
                               : "the link to the previous heap does not lead to another heap");
        break;
      }
      next = heap->previous;
      const AddressRange range{heap->begin, heap->begin + heap->size};
      if (next.is_null() && !range.contains(arena.address)) {
        log_.add(heap->begin, index, -1,
                 "the heap at " + hex(heap->begin) +
                     " has no previous heap, but its arena is in another heap");
      }
    }
    if (sum < arena.system_mem) {
      for (const auto& named : heaps.all_of(arena.address)) take(named.heap);
    }

    std::vector<HeapArea> areas;
    for (const ThreadHeap& heap : chain) {
      HeapArea area;
      area.system = {heap.begin, heap.begin + heap.size};
      area.reserved = {heap.begin, heap.begin + heap.reserved};
      area.first_chunk = heaps.first_chunk(heap, arena.address);
      if (area.system.contains(arena.top)) area.top = arena.top;
      area.arena = index;
      area.kind = SegmentKind::kThreadHeap;
      if (area.system.contains(area.first_chunk, format_.header)) areas.push_back(area);
    }
    return areas;
  }

 private:
  // The kernel calls it [heap]. Cores have no such names; but only the break begins inside a page
  // (a static program takes its TLS block from there first) or soon after the executable: 32 MiB
  // above it at most, or 1 GiB with arch_randomize_brk() of aarch64.
  bool is_break_area(Address base) const {
    const std::vector<Mapping>& mappings = space_.mappings();
    const auto is_named = [](const Mapping& mapping) { return mapping.path == "[heap]"; };
    if (std::any_of(mappings.begin(), mappings.end(), is_named)) {
      return is_named(*space_.find(base));
    }
    if (!base.is_aligned(target_.process().page_size)) return true;
    const auto is_file = [](const Mapping& mapping) { return mapping.path.starts_with('/'); };
    const auto first = std::find_if(mappings.begin(), mappings.end(), is_file);
    if (first == mappings.end()) return false;
    const auto last = std::find_if(mappings.rbegin(), mappings.rend(), [&](const Mapping& mapping) {
      return mapping.path == first->path;
    });
    constexpr uint64_t kFarthestBreak = 1ULL << 30;
    return last->range.end <= base && base - last->range.end <= kFarthestBreak;
  }

  // Without mp_: where [heap] begins, or in a core (which has no names) the mapping that holds top.
  Address guess_base(const Arena& arena) const {
    for (const Mapping& mapping : space_.mappings()) {
      if (mapping.path == "[heap]" && mapping.is_private_writable()) return mapping.range.begin;
    }
    if (arena.is_noncontiguous || arena.top.is_null()) return {};
    return space_.writable_run(arena.top).begin;
  }

  // A guessed base may lie before the first chunk; the first chain that holds is taken.
  void skip_foreign_begin(HeapArea& area) {
    ChunkChain chain(cache_, target_.residency(), format_);
    ChainGoal goal;
    goal.limit = area.top.is_null() ? area.system.end : area.top;
    goal.needs_fence = area.top.is_null();
    if (chain.follow(area.first_chunk, goal).end != ChainEnd::kBroken) return;
    const auto first = chain.resync(area.first_chunk, goal, true);
    if (!first) return;
    area.first_chunk = *first;
    area.system.begin = *first;
  }

  Address end_of_top(const Arena& arena, int32_t index, Address run_end) {
    const auto field = cache_.word(arena.top + format_.word, format_.word);
    const uint64_t size = field ? format_.size_of(*field) : 0;
    if (size >= format_.min_size && size <= run_end - arena.top) return arena.top + size;
    log_.add(arena.top + format_.word, index, -1,
             "the top chunk has size " + hex(size) + ", which does not fit its mapping");
    return run_end;
  }

  Target& target_;
  const AddressSpace& space_;
  PageCache& cache_;
  const LocatedMalloc& malloc_;
  ChunkFormat format_;
  CorruptionLog& log_;
};

}  // namespace

HeapAreas::HeapAreas(std::vector<HeapArea> areas, CorruptionLog& log) {
  std::sort(areas.begin(), areas.end(),
            [](const HeapArea& a, const HeapArea& b) { return a.system.begin < b.system.begin; });
  for (HeapArea& area : areas) {
    if (!areas_.empty() && area.system.begin < areas_.back().system.end) {
      log.add(area.system.begin, area.arena, -1,
              "this part of a heap overlaps another, which ends at " +
                  hex(areas_.back().system.end) + "; it is not walked");
      continue;
    }
    areas_.push_back(area);
  }
}

const HeapArea* HeapAreas::find(Address address) const {
  if (areas_.empty()) return nullptr;
  if (areas_[last_].system.contains(address)) return &areas_[last_];
  const auto after = std::upper_bound(
      areas_.begin(), areas_.end(), address,
      [](Address wanted, const HeapArea& area) { return wanted < area.system.begin; });
  if (after == areas_.begin() || !std::prev(after)->system.contains(address)) return nullptr;
  last_ = static_cast<size_t>(std::prev(after) - areas_.begin());
  return &areas_[last_];
}

uint64_t HeapAreas::bytes() const {
  uint64_t sum = 0;
  for (const HeapArea& area : areas_) sum += area.system.size();
  return sum;
}

HeapAreas find_heap_areas(Target& target, PageCache& cache,
                          const std::vector<LocatedMalloc>& mallocs,
                          const std::vector<Arena>& arenas, CorruptionLog& log) {
  std::vector<ThreadHeaps> heaps;  // of each malloc
  for (const LocatedMalloc& malloc : mallocs) {
    heaps.emplace_back(cache, target, malloc);
  }
  std::vector<HeapArea> areas;
  std::vector<uint64_t> in_brk(arenas.size());
  for (size_t i = 0; i < arenas.size(); ++i) {
    const Arena& arena = arenas[i];
    const auto index = static_cast<int32_t>(i);
    const LocatedMalloc& malloc = mallocs.at(arena.instance);
    AreaFinder finder(target, cache, malloc, log);
    if (!arena.is_main) {
      const auto found = finder.thread_areas(heaps[arena.instance], arena, index);
      areas.insert(areas.end(), found.begin(), found.end());
    } else if (const auto brk = finder.brk_area(arena, index)) {
      areas.push_back(*brk);
      in_brk[i] = brk->system.size();
    }
  }
  // Last, so that no heap found above is taken for a mapping that replaced brk.
  for (size_t i = 0; i < arenas.size(); ++i) {
    const Arena& arena = arenas[i];
    if (!arena.is_main || !arena.is_noncontiguous) continue;
    const ChunkFormat format(mallocs.at(arena.instance).layout);
    const auto found = find_mapped_segments(target, cache, format, arena, static_cast<int32_t>(i),
                                            areas, in_brk[i]);
    areas.insert(areas.end(), found.begin(), found.end());
  }
  return HeapAreas(std::move(areas), log);
}

}  // namespace heapsnap
