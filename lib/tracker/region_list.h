// The Directory's list of mappings (table_layout.h), which grows, and whose entries are used again.
#pragma once

#include <cstdint>

#include "tracker/control.h"

namespace heapsnap::tracker {

inline constexpr uint32_t kRegionShift = 17;
inline constexpr uint64_t kRegionsAtMost = 1ULL << kRegionShift;

// Adds a mapping; kNoFileOffset: of anonymous memory. When the list is full, that is noted. Safe on
// several threads and in signal handlers.
void list_region(const void* memory, uint64_t size, uint64_t offset, uint32_t kind);
// The working memory at `memory` is about to be unmapped.
void unlist_region(const void* memory);

}  // namespace heapsnap::tracker
