// How much memory a target used at the freeze, judging by its copy-on-write child and itself.
#pragma once

#include "platform/linux/proc/page_map.h"
#include "target/mapping.h"

namespace heapsnap {

// Usage of one mapping at the freeze, where `own` are the mapping's own pages in the copy, and
// `before` is from the target's smaps just before the freeze.
//
// Files and shared memory have no page tables in the copy, so their usage is that from before. So
// is the shared part of the mapping (rss - pss): in the copy all is shared.
MappingUsage usage_at_freeze(const Mapping& mapping, const PageMap::Bytes& own,
                             const MappingUsage& before);

}  // namespace heapsnap
