#include "heap/walk/heap_check.h"

#include <algorithm>

#include "heap/corruption_log.h"
#include "heap/walk/arena_list.h"
#include "heap/walk/list_check.h"
#include "heap/walk/thread_heaps.h"
#include "target/page_cache.h"

namespace heapsnap {

namespace {

// Numbers of parts; bins have glibc's.
constexpr unsigned kRing = 0;
constexpr unsigned kFastbins = 200;
constexpr unsigned kTop = 300;
constexpr unsigned kState = 301;
constexpr unsigned kHeaps = 302;

Corruption record(Address where, size_t arena, std::string what) {
  Corruption found;
  found.where = where;
  found.arena = static_cast<int32_t>(arena);
  found.what = std::move(what);
  return found;
}

}  // namespace

std::vector<Corruption> HeapCheck::look(Target& target) {
  PageCache cache(target.memory());
  CorruptionLog log;
  const ThreadHeaps heaps(cache, target, malloc_);
  std::vector<Arena> arenas;
  list_arenas(cache, malloc_, heaps, 0, Address(), arenas, log);
  const HeapAreas areas = find_heap_areas(target, cache, {malloc_}, arenas, log);
  std::vector<Corruption> found;
  const std::vector<Corruption> logged = log.take();
  for (size_t i = 0; i < arenas.size(); ++i) {
    check_part({arenas[i].address, kRing}, found, [&]() -> std::optional<Corruption> {
      const auto first = std::find_if(logged.begin(), logged.end(), [i](const Corruption& each) {
        return each.arena == static_cast<int32_t>(i);
      });
      if (first == logged.end()) return std::nullopt;
      return *first;
    });
    check_arena(target, areas, arenas, i, found);
  }
  return found;
}

template <typename Check>
void HeapCheck::check_part(const Part& part, std::vector<Corruption>& found, Check check) {
  if (sound_.contains(part)) return;
  if (auto damage = check()) {
    found.push_back(*std::move(damage));
  } else {
    sound_.insert(part);
  }
}

void HeapCheck::check_arena(Target& target, const HeapAreas& areas,
                            const std::vector<Arena>& arenas, size_t index,
                            std::vector<Corruption>& found) {
  const Arena& arena = arenas[index];
  const Address at = arena.address;
  check_part({at, kState}, found, [&] { return check_state(target, arenas, index); });
  // Nothing has been allocated in it: its bins may not have been made.
  if (arena.is_main && arena.top.is_null() && arena.system_mem == 0) return;
  ListCheck lists(target.memory(), malloc_.layout, areas, arena, static_cast<int32_t>(index));
  check_part({at, kTop}, found, [&] { return lists.check_top(); });
  if (!arena.is_main) {
    check_part({at, kHeaps}, found, [&] { return check_heaps(target, areas, index); });
  }
  for (unsigned bin = 0; bin < malloc_.layout.state.fastbin_count; ++bin) {
    check_part({at, kFastbins + bin}, found, [&] { return lists.check_fastbin(bin); });
  }
  for (unsigned bin = ListCheck::kFirstBin; bin < ListCheck::kEndOfBins; ++bin) {
    check_part({at, bin}, found, [&] { return lists.check_bin(bin); });
  }
}

// The lock, and the links by which glibc finds arenas.
std::optional<Corruption> HeapCheck::check_state(Target& target, const std::vector<Arena>& arenas,
                                                 size_t index) const {
  const MallocLayout& layout = malloc_.layout;
  const Arena& arena = arenas[index];
  const auto link_at = [&](uint64_t offset) {
    return ChunkFormat(layout).pointer(
        target.memory().read_value<uint64_t>(arena.address + offset).value_or(0));
  };
  // 0: free, 1: taken, 2: taken, with others waiting. A thread inside fork() holds the locks of all
  // arenas, so one that is taken may be right at any time.
  constexpr uint32_t kMostLock = 2;
  const auto lock = target.memory().read_value<uint32_t>(arena.address);
  if (!lock || *lock > kMostLock) {
    return record(arena.address, index,
                  "the lock of the arena at " + hex(arena.address) + " has the value " +
                      hex(lock.value_or(0)));
  }
  if (link_at(layout.state.next).is_null()) {
    return record(arena.address + layout.state.next, index, "the link to the next arena is null");
  }
  const Address next_free = link_at(layout.state.next + layout.word);
  const bool is_arena = std::any_of(arenas.begin(), arenas.end(), [next_free](const Arena& each) {
    return each.address == next_free;
  });
  if (!next_free.is_null() && !is_arena) {
    return record(
        arena.address + layout.state.next + layout.word, index,
        "the link to the next unused arena holds " + hex(next_free) + ", which is not an arena");
  }
  return std::nullopt;
}

// What grow_heap(), shrink_heap() and heap_trim() read (malloc/arena.c).
std::optional<Corruption> HeapCheck::check_heaps(Target& target, const HeapAreas& areas,
                                                 size_t index) const {
  const MallocLayout& layout = malloc_.layout;
  const ChunkFormat format(layout);
  for (const HeapArea& area : areas.all()) {
    if (area.arena != static_cast<int32_t>(index)) continue;
    const Address begin = area.system.begin;
    const Address writable_size = begin + layout.heap_info.size + layout.word;
    const auto writable = target.memory().read_value<uint64_t>(writable_size);
    if (!writable || *writable < area.system.size() || *writable > area.reserved.size() ||
        !target.address_space().writable_run(begin).contains(begin, *writable)) {
      return record(writable_size, index,
                    "the heap at " + hex(begin) + " is said to have " + hex(writable.value_or(0)) +
                        " writable bytes");
    }
    if (!area.top.is_null()) continue;
    // An older heap ends with a fencepost of size 0.
    const Address fence = area.system.end - format.header + format.word;
    const auto field = target.memory().read_value<uint64_t>(fence);
    if (!field || *field != ChunkFormat::kPreviousInUse) {
      return record(fence, index,
                    "the heap at " + hex(begin) + " does not end with a fencepost, but with " +
                        hex(field.value_or(0)));
    }
  }
  return std::nullopt;
}

}  // namespace heapsnap
