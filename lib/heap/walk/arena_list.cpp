#include "heap/walk/arena_list.h"

#include <unordered_set>

#include "heap/chunk_format.h"
#include "heap/malloc_layout.h"

namespace heapsnap {
namespace {

constexpr uint32_t kNoncontiguous = 2;  // malloc_state.flags

class ArenaReader {
 public:
  ArenaReader(PageCache& cache, const MallocLayout& layout)
      : cache_(cache), layout_(layout), format_(layout) {}

  // Fills in what its malloc_state says; false when that cannot be read.
  bool read(Arena& arena) const {
    const auto& state = layout_.state;
    const auto mutex = cache_.word(arena.address, 4);
    const auto flags = cache_.word(arena.address + 4, 4);
    const auto top = word(arena, state.top);
    const auto system_mem = word(arena, state.system_mem);
    const auto max_system_mem = word(arena, state.max_system_mem);
    if (!mutex || !flags || !top || !system_mem || !max_system_mem) return false;
    arena.was_locked = *mutex != 0;
    arena.is_noncontiguous = (*flags & kNoncontiguous) != 0;
    // Before the first malloc, top is null or the unsorted bin (initial_top).
    const Address initial_top = arena.address + state.bins - 2ULL * layout_.word;
    arena.top = format_.pointer(*top) == initial_top ? Address() : format_.pointer(*top);
    arena.system_mem = *system_mem;
    arena.max_system_mem = *max_system_mem;
    if (state.has_attached_threads) {
      arena.attached_threads = word(arena, state.attached_threads).value_or(0);
    }
    return true;
  }

  Address next(const Arena& arena) const {
    return format_.pointer(word(arena, layout_.state.next).value_or(0));
  }

 private:
  std::optional<uint64_t> word(const Arena& arena, uint64_t offset) const {
    return cache_.word(arena.address + offset, layout_.word);
  }

  PageCache& cache_;
  const MallocLayout& layout_;
  ChunkFormat format_;
};

}  // namespace

void list_arenas(PageCache& cache, const LocatedMalloc& malloc, const ThreadHeaps& heaps,
                 uint32_t instance, Address left_out, std::vector<Arena>& arenas,
                 CorruptionLog& log) {
  const ArenaReader reader(cache, malloc.layout);
  const auto index = [&arenas] { return static_cast<int32_t>(arenas.size()) - 1; };

  Arena main;
  main.address = malloc.instance.main_arena;
  main.instance = instance;
  main.is_main = true;
  const bool readable = reader.read(main);
  arenas.push_back(main);
  const int32_t main_index = index();
  if (!readable) {
    log.add(main.address, index(), -1, "the main arena cannot be read");
    return;
  }

  std::unordered_set<Address> seen{main.address};
  const auto append = [&](Address address) {
    Arena arena;
    arena.address = address;
    arena.instance = instance;
    if (!seen.insert(address).second || !heaps.find(address, address) || !reader.read(arena)) {
      return false;
    }
    arenas.push_back(arena);
    return true;
  };

  // Until 2.23's first thread, and in a zeroed main arena, next is null: there is no other arena.
  Address next = reader.next(main);
  bool is_broken = false;
  while (!next.is_null() && next != main.address && !is_broken) {
    if (seen.size() >= kMostArenas || !append(next)) {
      log.add(arenas.back().address + malloc.layout.state.next, index(), -1,
              "the link to the next arena holds " + hex(next) + ", which is not another arena");
      is_broken = true;
    } else {
      next = reader.next(arenas.back());
      if (next.is_null()) {
        log.add(arenas.back().address + malloc.layout.state.next, index(), -1,
                "the link to the next arena is null");
        is_broken = true;
      }
    }
  }
  if (!is_broken && !left_out.is_null()) {
    log.add(main.address + malloc.layout.state.next, main_index, -1,
            "the list of arenas does not contain the one at " + hex(left_out) +
                ", which a thread allocates from");
    is_broken = true;
  }
  if (!is_broken) return;
  for (const auto& named : heaps.all()) {
    if (arenas.size() < kMostArenas) append(named.arena);
  }
}

}  // namespace heapsnap
