// The blocks in use of a tracked process, one by one, with the stack that allocated each.
#pragma once

#include "analysis/snapshot_blocks.h"
#include "tracker/table_layout.h"

namespace heapsnap {

// Calls visit(stack id, requested size, usable size) for each; the caches of threads, which malloc
// makes for itself, are left out.
template <typename Visit>
void each_live_block(const SnapshotStreams& streams, Visit visit) {
  each_snapshot_block(streams, [&visit](const SnapshotBlock& block) {
    if (block.is_mallocs_own || block.is_slot) return;
    const uint64_t known = block.slack < tracker::kSlackUnknown ? block.slack : 0;
    visit(block.stack, block.usable > known ? block.usable - known : 0, block.usable);
  });
}

}  // namespace heapsnap
