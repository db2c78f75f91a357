// Every chunk as a line of JSON, for mongoimport, DuckDB, ClickHouse, jq.
//
//   {"kind":"snapshot","version":1,"pid":42,...}
//   {"kind":"chunk","addr":"0x5581...","size":48,"usable":40,"state":"used","arena":0}
//
// Of a tracked process a chunk in use that has a call stack says which, and how many of its usable
// bytes nobody asked for (31: that many or more); the stacks follow, their frames innermost first:
//
//   {"kind":"chunk","addr":"0x5581...",...,"arena":0,"stack":7,"slack":3}
//   {"kind":"stack","stack":7,"allocations":12,...,"frames":[{"address":"0x4011...",...}]}
//
// Of a snapshot with references a chunk in use says its type, where that is known, and its owner,
// or that it is leaked, or malloc's own; types and owners follow, by the names that they have in
// this snapshot:
//
//   {"kind":"chunk","addr":"0x5581...",...,"type":3,"owner":5,"state":"used","arena":0}
//   {"kind":"type","type":3,"name":"Session","source":"vtable"}
//   {"kind":"owner","owner":5,"name":"g_cache"}
//
// addr is the pointer that malloc returned, size the whole chunk with its header, usable what
// malloc_usable_size() gives (for free chunks: what it gave while they were used; 0 for top and
// fences, which never were). arena is an index, 0 the main arena; -1 a mapping of its own.
#pragma once

#include <cstdint>

#include "analysis/block_owners.h"
#include "analysis/snapshot_streams.h"
#include "heap/chunk.h"
#include "report/writer.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

// malloc_usable_size() of a chunk in an arena, all but its own size word of `word` bytes; 0 where
// it was never used.
constexpr uint64_t usable_bytes(uint64_t size, ChunkState state, unsigned word) {
  return state < ChunkState::kTop && size > word ? size - word : 0;
}

// `blocks`: null where there are no references.
void export_ndjson(const SnapshotStreams& streams, const ExplainedBlocks* blocks, Writer& out);
void export_ndjson(const SnapshotReader& reader, Writer& out);

}  // namespace heapsnap
