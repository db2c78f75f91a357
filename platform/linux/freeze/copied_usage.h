// How much memory a target used at the freeze, judging by its copy-on-write child and itself.
#pragma once

#include <vector>

#include "platform/linux/freeze/missing_memory.h"
#include "platform/linux/proc/page_map.h"
#include "platform/linux/proc/proc_fs.h"
#include "target/mapping.h"

namespace heapsnap {

// Usage of one mapping at the freeze, where `own` are the mapping's own pages in the copy, and
// `before` is from the target's smaps just before the freeze.
//
// Files and shared memory have no page tables in the copy, so their usage is that from before. So
// is the shared part of the mapping (rss - pss): in the copy all is shared.
MappingUsage usage_at_freeze(const Mapping& mapping, const PageMap::Bytes& own,
                             const MappingUsage& before);

// Usage of each of the `mappings` of the target at the freeze, by the page tables of process
// `copy`; `before` is of the target just before it, and `missing` what the copy does not show.
// Throws Error if the copy cannot be read.
std::vector<MappingUsage> usage_of_copy(const ProcFs& proc, int copy,
                                        const std::vector<Mapping>& mappings,
                                        const MappingsWithUsage& before,
                                        const MissingMemory& missing);

}  // namespace heapsnap
