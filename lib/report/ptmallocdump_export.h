// The text of the ptmalloc2 heap dumper, which its visualizer reads:
//
//   Heap  0x55d0c8a00000 size     135168 bytes:
//   Pages in use for 0x55d0c8a00000-0x55d0c8a21000: 111000...
//   chunk 0x55d0c8a00000 size        656 bytes          hello...........
//   chunk 0x55d0c8a00290 size         32 bytes [free]
//   chunk 0x55d0c8a002b0 size     134480 bytes (top)
//
// Where heapsnap knows better, the text says better:
// - chunks in tcaches and fastbins are free (the dumper took them for used ones);
// - a page in swap is in use; a page of unknown state is '?', which the visualizer reads, too;
// - the page list has no end at 512 MiB; it covers all pages that the heap touches;
// - a segment after a foreign sbrk is a heap of its own, as is each mmapped chunk;
// - without kept contents the preview is a single '?': the visualizer skips used chunks without
//   any, and zeros would be a lie.
#pragma once

#include "analysis/snapshot_streams.h"
#include "report/writer.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

// The dumper's two functions, and both at once.
enum class DumpedHeaps {
  kAll,
  kMain,     // the main arenas
  kNonMain,  // thread arenas and mmapped chunks
};

void export_ptmallocdump(const SnapshotStreams& streams, DumpedHeaps heaps, Writer& out);
void export_ptmallocdump(const SnapshotReader& reader, DumpedHeaps heaps, Writer& out);

}  // namespace heapsnap
