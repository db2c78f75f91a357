// Whether memory is an arena.
//
// A malloc_state that has been used has invariants that nothing else has:
//
//   ring      following next from the arena comes back to it
//   bins      each of the 127 is empty (points to itself) or its first and last chunk point back
//   top       a chunk in writable memory, or still the unsorted bin (initial_top)
//   counters  size of top <= system_mem <= max_system_mem
//
// Up to 2.41 an arena that was never used is all zero but for next and attached_threads; since 2.42
// its bins are made at start-up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heap/heap_model.h"
#include "heap/malloc_layout.h"
#include "target/target.h"

namespace heapsnap {

struct ArenaCheck {
  bool is_readable = false;
  bool is_used = false;  // its bins are made; false: all zero
  bool ring_closes = false;
  unsigned bad_bins = 0;  // of 127
  bool top_is_sane = false;
  bool counters_are_sane = false;
  uint64_t system_mem = 0;

  // What is wrong, each a sentence; empty for a sound arena.
  std::vector<std::string> damage() const;
};

// A heap under damage, or read while it changes, has some bins that do not link back.
inline constexpr unsigned kTolerableBadBins = 10;

// Reads the malloc_state at `arena`, the ring and the ends of each bin: bounded, whatever is there.
ArenaCheck check_arena(Target& target, const MallocLayout& layout, Address arena);

// The ring alone: the cheapest of the checks, and one that hardly anything else passes. Follows it
// for at most `steps` arenas and takes off what it needed.
bool arena_ring_closes(MemoryReader& memory, const MallocLayout& layout, Address arena,
                       unsigned& steps);

// Whether that is enough to accept it as an arena, given the strategy that proposed it: for a
// symbol little is required, for a scan everything. What a file proposes without a symbol may lack
// the ring if all else holds: one damaged link of any arena breaks the ring.
bool is_acceptable(const ArenaCheck& check, DiscoveryStrategy strategy);

}  // namespace heapsnap
