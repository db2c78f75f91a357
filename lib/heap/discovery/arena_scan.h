// Searches writable data for arenas, by their structure alone.
//
// An empty bin is a pair of words that both hold the address 2W below the pair. Nothing else in
// a program's data looks like that, and any arena has dozens of them: so pairs are found first, in
// one pass, and only addresses that would put an arena's bins around them are verified.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"
#include "heap/malloc_layout.h"
#include "target/target.h"

namespace heapsnap {

struct ScannedArena {
  Address address;
  MallocLayout layout;  // the one of those tried that fits
  uint64_t system_mem = 0;
};

// Every arena in `ranges` of the target (the ring then leads to those elsewhere). `layouts` are
// tried in their order. Reads in pieces, at most kMostScanned bytes in all; holes are skipped.
inline constexpr uint64_t kMostScanned = 256ULL << 20;
std::vector<ScannedArena> scan_for_arenas(Target& target, std::span<const AddressRange> ranges,
                                          std::span<const MallocLayout> layouts);

}  // namespace heapsnap
