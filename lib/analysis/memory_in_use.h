// What the program has in use: all blocks but malloc's own, and the used slots of language runtimes
// in the place of the blocks that hold their pages. The same figure as that of owners, types and
// leaks, also where there are no references, so that slots are no blocks. Where there are
// references but no slots, as of a runtime that was refused when some of it was known, nothing is a
// slot.
#pragma once

#include "analysis/size_classes.h"
#include "analysis/snapshot_streams.h"

namespace heapsnap {

// Usable bytes. `has_references`: the snapshot has them. Reads all chunks. Throws Error{kBadInput}.
Tally memory_in_use(const SnapshotStreams& streams, bool has_references);

}  // namespace heapsnap
