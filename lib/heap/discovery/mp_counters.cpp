#include "heap/discovery/mp_counters.h"

#include <algorithm>

namespace heapsnap {

namespace {

constexpr uint64_t kSmallestMapping = 4096;

std::optional<MpCounters> parse_counters(const StructBytes& bytes, const MallocLayout& layout) {
  const auto& par = layout.par;
  if (bytes.size() < par.size || bytes.is_all_zero()) return std::nullopt;
  const uint32_t max_n_mmaps = bytes.int_at(par.max_n_mmaps);
  MpCounters counters = {
      .n_mmaps = bytes.int_at(par.n_mmaps),
      .mmapped_mem = bytes.word_at(par.mmapped_mem),
      .tcache_count = layout.tcache.exists ? bytes.word_at(par.tcache_count) : 0,
      .sbrk_base = Address(bytes.word_at(par.sbrk_base)),
  };
  constexpr uint32_t kMostInt = INT32_MAX;
  if (counters.n_mmaps > max_n_mmaps || max_n_mmaps > kMostInt ||
      bytes.int_at(par.n_mmaps_max) > kMostInt) {
    return std::nullopt;
  }
  // 2.43 and 2.44 count 16 bytes too many for each mremap, so the sum may exceed but not fall
  // short.
  if (counters.mmapped_mem / kSmallestMapping < counters.n_mmaps) return std::nullopt;
  if (max_n_mmaps == 0 && counters.mmapped_mem != 0) return std::nullopt;
  if (counters.tcache_count > UINT16_MAX) return std::nullopt;
  return counters;
}

}  // namespace

std::optional<MpCounters> read_mp_counters(Target& target, const MallocLayout& layout,
                                           Address malloc_par) {
  const Mapping* mapping = target.address_space().find(malloc_par);
  if (mapping == nullptr || !mapping->writable || !malloc_par.is_aligned(layout.word)) {
    return std::nullopt;
  }
  return read_mapped_mp(target.memory(), layout, malloc_par);
}

std::optional<MpCounters> read_mapped_mp(MemoryReader& memory, const MallocLayout& layout,
                                         Address malloc_par) {
  std::vector<std::byte> bytes(layout.par.size);
  if (!memory.read_exact(malloc_par, bytes)) return std::nullopt;
  return parse_counters({bytes, layout.word}, layout);
}

std::optional<Address> scan_for_malloc_par(Target& target, const MallocLayout& layout,
                                           Address begin, std::span<const std::byte> data) {
  constexpr uint32_t kMostMmaps = 65536;                 // DEFAULT_MMAP_MAX
  const uint64_t arena_test = layout.word == 4 ? 2 : 8;  // NARENAS_FROM_NCORES (1)
  const auto& par = layout.par;
  const Address first = begin.align_up(layout.word);
  for (uint64_t offset = first - begin; fits_within(offset, par.size, data.size());
       offset += layout.word) {
    const StructBytes bytes(data.subspan(offset, par.size), layout.word);
    if (bytes.int_at(par.n_mmaps_max) != kMostMmaps ||
        bytes.word_at(par.arena_test) != arena_test) {
      continue;
    }
    const auto counters = parse_counters(bytes, layout);
    if (!counters || counters->sbrk_base.is_null()) continue;
    const Mapping* heap = target.address_space().find(counters->sbrk_base);
    if (heap != nullptr && heap->is_private_writable()) return begin + offset;
  }
  return std::nullopt;
}

}  // namespace heapsnap
