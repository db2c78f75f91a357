// What the program has in use: all blocks but malloc's own, and the used slots of language runtimes
// in the place of the blocks that hold their pages. The same figure as that of owners, types and
// leaks, also where there are no references, so that slots are no blocks.
#pragma once

#include "analysis/size_classes.h"
#include "analysis/snapshot_streams.h"

namespace heapsnap {

// Usable bytes. Reads all chunks. Throws Error{kBadInput}.
Tally memory_in_use(const SnapshotStreams& streams);

}  // namespace heapsnap
