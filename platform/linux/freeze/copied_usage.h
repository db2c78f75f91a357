// How much memory a target used at the freeze, told from its copy-on-write child and from itself.
#pragma once

#include "platform/linux/proc/page_map.h"
#include "target/mapping.h"

namespace heapsnap {

// Usage of one mapping at the freeze, where `own` are the mapping's own pages in the copy, and
// smaps of the target said `before` a moment before the freeze.
//
// Files and shared memory have no page tables in the copy and are taken as they were before. How
// much of the mapping others share (rss - pss) is taken from before, too: in the copy all is
// shared.
MappingUsage usage_at_freeze(const Mapping& mapping, const PageMap::Bytes& own,
                             const MappingUsage& before);

}  // namespace heapsnap
