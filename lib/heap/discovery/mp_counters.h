// mp_, the parameters and counters that all arenas of one malloc share.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heap/malloc_layout.h"
#include "heap/struct_bytes.h"
#include "target/target.h"

namespace heapsnap {

// What is taken from mp_ (struct malloc_par).
struct MpCounters {
  uint64_t n_mmaps = 0;
  uint64_t mmapped_mem = 0;
  uint64_t tcache_count = 0;
  Address sbrk_base;
  bool operator==(const MpCounters&) const = default;
};

// The counters at `malloc_par`; nothing when they cannot be read or cannot be valid: counts that
// exceed their maximum, mmapped bytes that do not go with the number of mmapped chunks.
std::optional<MpCounters> read_mp_counters(Target& target, const MallocLayout& layout,
                                           Address malloc_par);
// The same of a place that is known to be mapped.
std::optional<MpCounters> read_mapped_mp(MemoryReader& memory, const MallocLayout& layout,
                                         Address malloc_par);

// Looks for mp_ in `data`, bytes of the target that begin at `begin`: what read_mp_counters()
// takes, with the defaults of arena_test and n_mmaps_max and an sbrk_base that is mapped.
std::optional<Address> scan_for_malloc_par(Target& target, const MallocLayout& layout,
                                           Address begin, std::span<const std::byte> data);

}  // namespace heapsnap
