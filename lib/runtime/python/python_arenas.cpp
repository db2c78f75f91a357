#include "runtime/python/python_arenas.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

constexpr uint64_t kMostArenas = 1 << 24;  // 16 TiB

// Sorts them by address; false where two overlap.
bool sort_apart(std::vector<PythonArena>& arenas) {
  std::sort(arenas.begin(), arenas.end(), [](const PythonArena& a, const PythonArena& b) {
    return a.range.begin < b.range.begin;
  });
  return std::adjacent_find(arenas.begin(), arenas.end(),
                            [](const PythonArena& a, const PythonArena& b) {
                              return a.range.overlaps(b.range);
                            }) == arenas.end();
}

// One array of arenas, as far as it can be believed.
class ArenaArray {
 public:
  ArenaArray(Target& target, const PythonLayout& layout)
      : space_(target.address_space()), layout_(layout), cache_(target.memory()) {}

  // Whether `at` may be the begin of an array at all: its first structure fits any length.
  bool may_begin_at(Address at) {
    const Mapping* const mapping = at.is_aligned(8) ? space_.find(at) : nullptr;
    if (mapping == nullptr || !mapping->is_private_writable()) return false;
    std::vector<std::byte> bytes(layout_.arena_size);
    if (cache_.read(at, bytes) != bytes.size()) return false;
    PythonArena arena;
    return state_of(StructBytes(bytes, 8), at, kMostArenas, &arena) != State::kOther;
  }
  // The arenas of the array of `count` structures, if all of them fit but one that is in change.
  std::optional<std::vector<PythonArena>> read(Address at, uint64_t count) {
    std::vector<PythonArena> found;
    std::vector<std::byte> bytes(layout_.arena_size);
    bool has_one_in_change = false;
    for (uint64_t i = 0; i < count; ++i) {
      if (looks_left_ == 0) return std::nullopt;
      --looks_left_;
      if (cache_.read(at + i * layout_.arena_size, bytes) != bytes.size()) return std::nullopt;
      PythonArena arena;
      arena.index = static_cast<uint32_t>(i);
      const State state = state_of(StructBytes(bytes, 8), at, count, &arena);
      if (state == State::kOther) return std::nullopt;
      // Who changes one holds the interpreter's lock.
      if (state == State::kInChange && std::exchange(has_one_in_change, true)) return std::nullopt;
      if (!arena.range.is_empty()) found.push_back(arena);
    }
    if (!sort_apart(found)) return std::nullopt;
    return found;
  }
  PageCache& cache() { return cache_; }
  // Whether more was asked for than any array has: then the answers mean nothing.
  bool is_spent() const { return looks_left_ == 0; }

 private:
  enum class State : uint8_t {
    kWhole,
    kInChange,  // the process was stopped while it made, linked or freed the arena
    kOther,     // no structure of an arena
  };

  // Fills in `arena` where it has pools.
  State state_of(const StructBytes& bytes, Address begin, uint64_t count, PythonArena* arena) {
    if (!has_place(bytes, arena)) return has_no_pools(bytes) ? State::kInChange : State::kOther;
    return has_links(bytes, begin, count) ? State::kWhole : State::kInChange;
  }
  bool has_links(const StructBytes& bytes, Address begin, uint64_t count) const {
    const auto is_link = [&](uint64_t link) {
      const uint64_t distance = Address(link) - begin;
      return link == 0 ||
             (distance % layout_.arena_size == 0 && distance / layout_.arena_size < count);
    };
    const bool is_unused = bytes.word_at(layout_.arena_address) == 0;
    // Arenas without a free pool are in no list: their links are from before the array was moved.
    if (!is_unused && bytes.int_at(layout_.arena_free_pools) == 0) return true;
    return is_link(bytes.word_at(layout_.arena_next)) &&
           (is_unused || is_link(bytes.word_at(layout_.arena_previous)));
  }
  AddressRange range_of(const StructBytes& bytes) const {
    const Address address(bytes.word_at(layout_.arena_address));
    return {address, address + layout_.arena_bytes};
  }
  uint64_t pools_in(const AddressRange& range) const {
    return (range.end - range.begin.align_up(layout_.pool_bytes)) / layout_.pool_bytes;
  }
  bool has_place(const StructBytes& bytes, PythonArena* arena) const {
    const AddressRange range = range_of(bytes);
    if (range.begin.is_null()) return true;
    if (range.is_empty()) return false;
    const Address first = range.begin.align_up(layout_.pool_bytes);
    const Address end(bytes.word_at(layout_.arena_pool_address));
    const uint32_t total = bytes.int_at(layout_.arena_total_pools);
    const uint32_t free = bytes.int_at(layout_.arena_free_pools);
    if (total != pools_in(range) || free > total) return false;
    if (end < first || range.end < end || !end.is_aligned(layout_.pool_bytes)) return false;
    const Mapping* const mapping = space_.find(range.begin);
    if (mapping == nullptr || !mapping->is_private_writable()) return false;
    arena->range = range;
    arena->pools = {first, end};
    arena->free_pools = free;
    arena->total_pools = total;
    return true;
  }
  // Whether its memory was just mapped or just unmapped: new_arena() sets `address` before the
  // rest, and what frees an arena sets it to 0 after munmap(2).
  bool has_no_pools(const StructBytes& bytes) {
    const AddressRange range = range_of(bytes);
    if (range.is_empty() || !range.begin.is_aligned(PageCache::kPageSize)) return false;
    const Mapping* const mapping = space_.find(range.begin);
    if (mapping == nullptr) {
      const uint32_t total = bytes.int_at(layout_.arena_total_pools);
      return total == pools_in(range) && bytes.int_at(layout_.arena_free_pools) == total;
    }
    if (!mapping->is_private_writable() || mapping->range.end < range.end) return false;
    std::array<std::byte, PythonLayout::kLargestSlot> pool;
    return cache_.read(range.begin.align_up(layout_.pool_bytes), pool) == pool.size() &&
           std::all_of(pool.begin(), pool.end(),
                       [](std::byte byte) { return byte == std::byte{}; });
  }

  static constexpr uint64_t kMostLooks = 2 * uint64_t{kMostArenas};

  const AddressSpace& space_;
  const PythonLayout& layout_;
  PageCache cache_;
  uint64_t looks_left_ = kMostLooks;
};

// How many structures the array has: `maxarenas` is a variable of the same source file as `arenas`,
// which compilers put next to each other.
std::vector<uint64_t> counts_near(std::span<const std::byte> data, size_t offset) {
  constexpr size_t kNear = 256;
  const size_t begin = offset - std::min(offset, kNear);
  const size_t end = std::min(data.size(), offset + kNear);
  std::vector<uint64_t> counts;
  const StructBytes words(data, 8);
  for (size_t i = begin; i + 4 <= end; i += 4) {
    const uint64_t count = words.int_at(i);
    if (count < PythonLayout::kFirstArenas || count > kMostArenas) continue;
    if ((count & (count - 1)) == 0) counts.push_back(count);
  }
  std::sort(counts.begin(), counts.end(), std::greater<>());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

// Whether `some` are all among `arenas`; both ascend.
bool holds_all(const std::vector<PythonArena>& arenas, const std::vector<PythonArena>& some) {
  return std::includes(arenas.begin(), arenas.end(), some.begin(), some.end(),
                       [](const PythonArena& a, const PythonArena& b) {
                         return std::pair(a.range.begin, a.range.end) <
                                std::pair(b.range.begin, b.range.end);
                       });
}

// What was found by searching.
struct FoundArray {
  Address at;
  std::vector<PythonArena> arenas;
  bool is_ambiguous = false;
  bool is_cut_off = false;
};

// By what `arenas` must point to.
FoundArray search_array(Target& target, const PythonPlace& place) {
  constexpr uint64_t kMostData = 256 << 20;
  FoundArray found;
  ArenaArray array(target, *place.layout);
  for (const AddressRange& range : place.data) {
    std::vector<std::byte> data(std::min(range.size(), kMostData));
    data.resize(target.memory().read(range.begin, data));
    const StructBytes words(data, 8);
    for (size_t offset = 0; offset + 8 <= data.size(); offset += 8) {
      const Address at(words.word_at(offset));
      if (at.is_null() || range.contains(at) || !array.may_begin_at(at)) continue;
      for (const uint64_t count : counts_near(data, offset)) {
        auto arenas = array.read(at, count);
        if (array.is_spent()) return {{}, {}, false, true};
        if (!arenas || arenas->empty()) continue;
        // Other variables lead into the same array.
        if (arenas->size() > found.arenas.size()) {
          arenas->swap(found.arenas);
          found.at = at;
        }
        found.is_ambiguous |= !holds_all(found.arenas, *arenas);
        break;
      }
    }
  }
  return found;
}

PythonArenas searched(FoundArray found) {
  if (found.is_cut_off) return {{}, "too many places look like the table of its arenas"};
  if (found.is_ambiguous) return {{}, "several places look like the table of its arenas"};
  return {std::move(found.arenas), {}};
}

// Where in an interpreter's state its allocator is: the main one's has that array.
std::optional<uint64_t> offset_of_allocator(Target& target, const PythonPlace& place, Address main,
                                            Address array) {
  const PythonLayout& layout = *place.layout;
  const AddressRange runtime{place.runtime, place.runtime + place.runtime_size};
  if (!runtime.contains(main)) return std::nullopt;
  std::vector<std::byte> state(runtime.end - main);
  if (!target.memory().read_exact(main, state)) return std::nullopt;
  PageCache cache(target.memory());
  const StructBytes words(state, 8);
  for (uint64_t offset = 0; offset + 8 <= state.size(); offset += 8) {
    const Address word(words.word_at(offset));
    if (layout.is_obmalloc_elsewhere) {
      const bool is_data =
          std::any_of(place.data.begin(), place.data.end(),
                      [&](const AddressRange& range) { return range.contains(word); });
      if (is_data && cache.word(word + layout.obmalloc_arenas, 8) == array.value()) return offset;
    } else if (word == array && offset >= layout.obmalloc_arenas) {
      return offset - layout.obmalloc_arenas;
    }
  }
  return std::nullopt;
}

// By the states of interpreters: each one's allocator, which several may have in common.
PythonArenas arenas_of(Target& target, const PythonLayout& layout, uint64_t allocator_at,
                       std::span<const Address> interpreters) {
  std::vector<PythonArena> all;
  ArenaArray array(target, layout);
  std::unordered_set<uint64_t> seen;
  std::unordered_set<uint64_t> seen_arrays;
  for (const Address interpreter : interpreters) {
    Address allocator = interpreter + allocator_at;
    if (layout.is_obmalloc_elsewhere) {
      const auto at = array.cache().word(allocator, 8);
      if (!at) return {{}, "an interpreter's state cannot be read"};
      allocator = Address(*at);
      // It is being made.
      if (allocator.is_null()) continue;
    }
    if (!seen.insert(allocator.value()).second) continue;
    const auto at = array.cache().word(allocator + layout.obmalloc_arenas, 8);
    const auto count = array.cache().word(allocator + layout.obmalloc_arena_count, 4);
    if (!at || !count) return {{}, "the allocator of an interpreter cannot be read"};
    if (*at == 0) continue;
    auto arenas = *count > kMostArenas ? std::nullopt : array.read(Address(*at), *count);
    // Arenas of several interpreters lie apart, so all together are no more than one can have.
    if (!arenas || all.size() + arenas->size() > kMostArenas) {
      return {{}, "what an interpreter's state says of its arenas does not fit"};
    }
    if (!seen_arrays.insert(*at).second) return {{}, "arenas of its interpreters overlap"};
    all.insert(all.end(), arenas->begin(), arenas->end());
  }
  if (!sort_apart(all)) return {{}, "arenas of its interpreters overlap"};
  return {std::move(all), {}};
}

}  // namespace

PythonArenas find_python_arenas(Target& target, const PythonPlace& place,
                                std::span<const Address> interpreters) {
  const PythonLayout& layout = *place.layout;
  if (layout.interpreter_obmalloc == 0) return searched(search_array(target, place));
  if (place.runtime_size == layout.runtime_size) {
    return arenas_of(target, layout, layout.interpreter_obmalloc, interpreters);
  }
  FoundArray found = search_array(target, place);
  if (found.is_ambiguous || found.is_cut_off || interpreters.size() <= 1)
    return searched(std::move(found));
  const auto offset = offset_of_allocator(target, place, interpreters.back(), found.at);
  if (offset) return arenas_of(target, layout, *offset, interpreters);
  return {{},
          "it has " + std::to_string(interpreters.size()) +
              " interpreters, and its build does not tell where the arenas of each are"};
}

}  // namespace heapsnap
