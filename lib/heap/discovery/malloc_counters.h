// What a malloc counts by itself, read from a process that runs on.
//
// No walk: each arena's system_mem and mp_'s mmapped_mem, some words an arena. They are not of one
// instant, since threads change them meanwhile, so what cannot be true is refused: a ring of arenas
// that does not close, an arena that its heap does not name, more bytes than the process maps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "heap/located_malloc.h"
#include "target/memory_reader.h"

namespace heapsnap {

struct MallocCounters {
  uint64_t arenas = 0;
  uint64_t arena_bytes = 0;  // that all arenas have from the system, free ones included
  uint64_t mmapped_chunks = 0;
  uint64_t mmapped_bytes = 0;

  uint64_t bytes() const { return arena_bytes + mmapped_bytes; }
  bool operator==(const MallocCounters&) const = default;
};

// One arena of the sums.
struct ArenaCounters {
  Address address;
  bool is_main = false;
  uint64_t bytes = 0;      // that it has from the system
  uint64_t top_bytes = 0;  // of its top chunk, which is free; 0: cannot be read or cannot be true
  bool operator==(const ArenaCounters&) const = default;
};

// The sums over `mallocs`, each with its mp_. Nothing when they cannot be read or cannot be true;
// a malloc in the middle of a change is asked again. `mapped`: bytes that the process had mapped at
// about the same time; the sums may exceed it by an eighth. `arenas`: gets each arena, in the order
// of their ring; that costs two more reads an arena.
std::optional<MallocCounters> read_malloc_counters(MemoryReader& memory,
                                                   std::span<const LocatedMalloc> mallocs,
                                                   uint64_t mapped,
                                                   std::vector<ArenaCounters>* arenas = nullptr);

}  // namespace heapsnap
