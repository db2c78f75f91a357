#include "heap/discovery/malloc_counters.h"

#include <array>

#include "heap/chunk_format.h"
#include "heap/discovery/mp_counters.h"
#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

constexpr int kMostAttempts = 3;

class CounterReader {
 public:
  // `arenas`: null where they are not asked for.
  CounterReader(MemoryReader& memory, const LocatedMalloc& malloc, uint64_t mapped,
                std::vector<ArenaCounters>* arenas)
      : arenas_(arenas),
        memory_(memory),
        malloc_(malloc),
        layout_(malloc.layout),
        format_(malloc.layout),
        most_(mapped + mapped / 8) {}

  // Adds this malloc to `sum`; false when it is not to be believed.
  bool add_to(MallocCounters& sum) const {
    if (malloc_.instance.malloc_par.is_null()) return false;
    const auto shared = read_mapped_mp(memory_, layout_, malloc_.instance.malloc_par);
    if (!shared || !add_bytes(sum.mmapped_bytes, shared->mmapped_mem)) return false;
    sum.mmapped_chunks += shared->n_mmaps;
    const Address main = malloc_.instance.main_arena;
    Address arena = main;
    for (unsigned count = 0; count < kMostArenas; ++count) {
      if (arena != main && !is_named_by_heap(arena)) return false;
      if (!add_arena(arena, sum)) return false;
      const auto next = word(arena + layout_.state.next);
      if (!next) return false;
      arena = format_.pointer(*next);
      // Up to 2.23's first thread, and before the first malloc, next is null.
      if (arena == main || (arena.is_null() && count == 0)) return true;
    }
    return false;
  }

 private:
  std::optional<uint64_t> word(Address at) const { return read_word(memory_, at, layout_.word); }

  bool add_bytes(uint64_t& sum, uint64_t bytes) const {
    if (bytes > most_ || sum > most_ - bytes) return false;
    sum += bytes;
    return true;
  }

  bool add_arena(Address arena, MallocCounters& sum) const {
    const auto system_mem = word(arena + layout_.state.system_mem);
    const auto max_system_mem = word(arena + layout_.state.max_system_mem);
    if (!system_mem || !max_system_mem || *system_mem > *max_system_mem) return false;
    ++sum.arenas;
    if (arenas_ != nullptr) {
      const bool is_main = arena == malloc_.instance.main_arena;
      arenas_->push_back({arena, is_main, *system_mem, top_bytes(arena, *system_mem)});
    }
    return add_bytes(sum.arena_bytes, *system_mem);
  }

  uint64_t top_bytes(Address arena, uint64_t most) const {
    const auto top = word(arena + layout_.state.top);
    if (!top || *top == 0) return 0;
    const auto size = word(format_.pointer(*top) + layout_.word);
    const uint64_t bytes = size ? format_.size_of(*size) : 0;
    return bytes <= most ? bytes : 0;
  }

  // An arena that is not the main one lies in its first heap, whose heap_info names it.
  bool is_named_by_heap(Address arena) const {
    if (!arena.is_aligned(layout_.word)) return false;
    std::array<uint64_t, 2> sizes{layout_.heap_max_size, 0};
    if (layout_.par.hp_pagesize != 0) {
      const uint64_t page = word(malloc_.instance.malloc_par + layout_.par.hp_pagesize).value_or(0);
      if (page <= most_) sizes[1] = 4 * page;
    }
    for (const uint64_t size : sizes) {
      if (size == 0 || (size & (size - 1)) != 0) continue;
      const auto named = word(arena.align_down(size) + layout_.heap_info.ar_ptr);
      if (named && format_.pointer(*named) == arena) return true;
    }
    return false;
  }

  std::vector<ArenaCounters>* arenas_;
  MemoryReader& memory_;
  const LocatedMalloc& malloc_;
  const MallocLayout& layout_;
  ChunkFormat format_;
  uint64_t most_;
};

}  // namespace

std::optional<MallocCounters> read_malloc_counters(MemoryReader& memory,
                                                   std::span<const LocatedMalloc> mallocs,
                                                   uint64_t mapped,
                                                   std::vector<ArenaCounters>* arenas) {
  if (mallocs.empty()) return std::nullopt;
  MallocCounters sum;
  for (const LocatedMalloc& malloc : mallocs) {
    const MallocCounters before = sum;
    const size_t arenas_before = arenas == nullptr ? 0 : arenas->size();
    bool is_sound = false;
    for (int attempt = 0; attempt < kMostAttempts && !is_sound; ++attempt) {
      sum = before;
      if (arenas != nullptr) arenas->resize(arenas_before);
      is_sound = CounterReader(memory, malloc, mapped, arenas).add_to(sum);
    }
    if (!is_sound) {
      if (arenas != nullptr) arenas->clear();
      return std::nullopt;
    }
  }
  return sum;
}

}  // namespace heapsnap
