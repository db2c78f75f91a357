// A heap map as a PNG file.
//
//   used         red     the more of a pixel's bytes, the stronger
//   free         grey    in memory, or not known to be elsewhere
//   absent       white   of either kind: never touched or given back, costs nothing
//   in swap      blue
//   no heap      black   between regions, and after the last
#pragma once

#include "analysis/heap_map.h"
#include "report/writer.h"

namespace heapsnap {

// Throws Error{kOutput}, also when the picture is empty (a heap without chunks).
void write_heap_picture(const HeapMap& map, Writer& out);

}  // namespace heapsnap
