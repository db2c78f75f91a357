// Every chunk as a line of JSON, for mongoimport, DuckDB, ClickHouse, jq.
//
//   {"kind":"snapshot","version":1,"pid":42,...}
//   {"kind":"chunk","addr":"0x5581...","size":48,"usable":40,"state":"used","arena":0}
//
// addr is the pointer that malloc returned, size the whole chunk with its header, usable what
// malloc_usable_size() gives (for free chunks: what it gave while they were used; 0 for top and
// fences, which never were). arena is an index, 0 the main arena; -1 a mapping of its own.
#pragma once

#include "analysis/snapshot_streams.h"
#include "report/writer.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

void export_ndjson(const SnapshotStreams& streams, Writer& out);
void export_ndjson(const SnapshotReader& reader, Writer& out);

}  // namespace heapsnap
