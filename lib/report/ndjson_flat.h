// Every chunk as a row for a table of many snapshots of many hosts, and the frames of their call
// stacks as rows of a table of their own. All rows of a table have the same members in the same
// order, each a number, a text, a truth or null, so that a reader's guess of the columns is right
// and Parquet files of any number of snapshots can be read as one:
//
//   {"date":"2026-11-24","host":"web1",...,"arena":0,"address":94000,"size":48,...,"type":null,...}
//   {"stack_id":"9f31...","depth":0,"function":"operator new(unsigned long)","module":"libstdc++"}
//
// docs/json.md describes each member. A stack has the same id in every snapshot, so rows of frames
// that occur twice say the same.
#pragma once

#include "analysis/reference_streams.h"
#include "analysis/snapshot_streams.h"
#include "report/writer.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

// `recorded`: null for a process that was not tracked. `references`: null where there are none.
void export_ndjson_flat(const SnapshotStreams& streams, const RecordedStacks* recorded,
                        const ReferenceStreams* references, Writer& out);
void export_ndjson_flat(const SnapshotReader& reader, Writer& out);

// Nothing for a process that was not tracked.
void export_ndjson_frames(const SnapshotMetadata& metadata, const RecordedStacks& recorded,
                          Writer& out);

}  // namespace heapsnap
