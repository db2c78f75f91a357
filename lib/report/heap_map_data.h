// The heap map of a page: sums of the whole heap, and the chunks themselves as far as they fit.
//
//   pixels    four planes of a byte each (used, free, absent, swapped), zlib. A pixel is one of
//             HeapCells (analysis/heap_cells.h): so many of 255 parts of its bytes; what is
//             a little more than nothing is 1. Coarser scales are sums of these.
//   slabs     up to 16384 chunks that lie end to end, each column by itself in zlib:
//               shape    sizes in units of 8 bytes, as varints (LEB128); then a byte a chunk:
//                        ChunkState
//               types    a varint for each live chunk: index into "types" of the JSON
//               stacks   a varint for each live chunk: id of its call stack, 0: none
//   mmapped   a slab, too: before the size of each chunk the gap from the end of the one before it
//             is written, a varint in units of 8 bytes
//
// A reader inflates a slab only when its chunks are looked at. The JSON says where each column
// lies; where a column did not fit into the page, its length is 0.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/reference_streams.h"
#include "analysis/snapshot_streams.h"

namespace heapsnap {

struct HeapMapData {
  std::string json;  // {"kind":"heap-map","version":1,...}
  std::string pixels;
  std::string chunks;
};

struct HeapMapRoom {
  size_t pixels = size_t{512} << 10;
  size_t chunk_bytes = size_t{16} << 20;  // of all columns, compressed
  size_t types = 5000;                    // names; others are not told apart
};

// `references`: null where there are none. Reads the chunks several times. Throws Error{kBadInput}.
HeapMapData make_heap_map_data(const SnapshotStreams& streams, const ReferenceStreams* references,
                               const HeapMapRoom& room = {});

}  // namespace heapsnap
