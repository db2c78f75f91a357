// The graph of references as a .heapsnapshot file, for the Memory panel of Chrome's DevTools,
// memlab, and what else reads V8's heap snapshots.
//
//   node 0 (the root) ──► (GC roots) ──► a node a root's place ──► blocks ──► blocks
//                     ├─► (leaked) ──► blocks that no root leads to
//                     └─► (garbage) ──► of these, what a language runtime will free
//
// A block is a node, called by its type, or by its size where that is not known; self_size is what
// malloc_usable_size() gives. An edge between blocks is an element: its index is the byte where the
// reference lies. From "(leaked)" there is an edge to each block that nothing else leaked points
// to, and to one of each cycle; from "(garbage)" the same. Blocks that are
// malloc's own (analysis/snapshot_blocks.h) are nodes of the type "hidden" and of size 0, so that
// sizes add up to what owners say is in use.
#pragma once

#include "analysis/snapshot_streams.h"
#include "report/reference_report.h"
#include "report/writer.h"

namespace heapsnap {

// Throws Error{kBadInput} when blocks and references do not fit together, before a byte is written.
// About 25 bytes a block where each has one reference and a half.
void export_heapsnapshot(const SnapshotStreams& streams, const ReferenceReportInput& input,
                         Writer& out);

}  // namespace heapsnap
