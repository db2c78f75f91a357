// How much memory a target used at the freeze, told from its copy-on-write child and from itself.
#pragma once

#include <vector>

#include "target/mapping.h"

namespace heapsnap {

// Usage of one mapping at the freeze, where smaps of the child says `copy` and smaps of the target,
// somewhat later, says `running`.
//
// Private pages are those of the copy. Each of them is shared with the target until the target
// writes to it, so the copy's proportional share (pss) shows half of what the target's was, or all
// of it: twice that, at most the resident size, is right for every page that was the target's own.
// Files and shared memory have no page tables in the copy and are taken as they are now.
MappingUsage usage_at_freeze(const Mapping& mapping, const MappingUsage& copy,
                             const MappingUsage& running);

}  // namespace heapsnap
