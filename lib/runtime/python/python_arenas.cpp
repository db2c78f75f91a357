#include "runtime/python/python_arenas.h"

#include <algorithm>
#include <optional>

#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

constexpr uint64_t kMostArenas = 1 << 24;  // 16 TiB

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
    return fits(StructBytes(bytes, 8), at, kMostArenas, nullptr);
  }
  // The arenas of the array of `count` structures, if all of them fit.
  std::optional<std::vector<PythonArena>> read(Address at, uint64_t count) {
    std::vector<PythonArena> found;
    std::vector<std::byte> bytes(layout_.arena_size);
    for (uint64_t i = 0; i < count; ++i) {
      if (cache_.read(at + i * layout_.arena_size, bytes) != bytes.size()) return std::nullopt;
      PythonArena arena;
      arena.index = static_cast<uint32_t>(i);
      if (!fits(StructBytes(bytes, 8), at, count, &arena)) return std::nullopt;
      if (!arena.range.is_empty()) found.push_back(arena);
    }
    std::sort(found.begin(), found.end(), [](const PythonArena& a, const PythonArena& b) {
      return a.range.begin < b.range.begin;
    });
    for (size_t i = 1; i < found.size(); ++i) {
      if (found[i - 1].range.overlaps(found[i].range)) return std::nullopt;
    }
    return found;
  }
  PageCache& cache() { return cache_; }

 private:
  bool is_link(uint64_t link, Address begin, uint64_t count) const {
    if (link == 0) return true;
    const uint64_t distance = Address(link) - begin;
    return distance % layout_.arena_size == 0 && distance / layout_.arena_size < count;
  }
  bool fits(const StructBytes& bytes, Address begin, uint64_t count, PythonArena* arena) const {
    const Address address(bytes.word_at(layout_.arena_address));
    // Arenas without a free pool are in no list: their links are from before the array was moved.
    const bool is_listed = address.is_null() || bytes.int_at(layout_.arena_free_pools) != 0;
    if (is_listed && !is_link(bytes.word_at(layout_.arena_next), begin, count)) return false;
    if (address.is_null()) return true;
    if (is_listed && !is_link(bytes.word_at(layout_.arena_previous), begin, count)) return false;
    const AddressRange range{address, address + layout_.arena_bytes};
    if (range.is_empty()) return false;
    const Address first = address.align_up(layout_.pool_bytes);
    const Address end(bytes.word_at(layout_.arena_pool_address));
    const uint32_t total = bytes.int_at(layout_.arena_total_pools);
    const uint64_t room = (range.end - first) / layout_.pool_bytes;
    if (total != room || bytes.int_at(layout_.arena_free_pools) > total) return false;
    if (end < first || range.end < end || !end.is_aligned(layout_.pool_bytes)) return false;
    const Mapping* const mapping = space_.find(address);
    if (mapping == nullptr || !mapping->is_private_writable()) return false;
    if (arena != nullptr) {
      arena->range = range;
      arena->pools = {first, end};
      arena->free_pools = bytes.int_at(layout_.arena_free_pools);
      arena->total_pools = total;
    }
    return true;
  }

  const AddressSpace& space_;
  const PythonLayout& layout_;
  PageCache cache_;
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

// Whether `some` are all among `arenas`.
bool holds_all(const std::vector<PythonArena>& arenas, const std::vector<PythonArena>& some) {
  return std::all_of(some.begin(), some.end(), [&](const PythonArena& one) {
    return std::any_of(arenas.begin(), arenas.end(),
                       [&](const PythonArena& arena) { return arena.range == one.range; });
  });
}

}  // namespace

PythonArenas find_python_arenas(Target& target, const PythonPlace& place) {
  constexpr uint64_t kMostData = 256 << 20;
  std::vector<PythonArena> found;
  bool is_ambiguous = false;
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
        if (!arenas || arenas->empty()) continue;
        // Other variables lead into the same array.
        if (arenas->size() > found.size()) arenas->swap(found);
        is_ambiguous |= !holds_all(found, *arenas);
        break;
      }
    }
  }
  if (is_ambiguous) return {{}, "several places look like the table of its arenas"};
  return {std::move(found), {}};
}

}  // namespace heapsnap
