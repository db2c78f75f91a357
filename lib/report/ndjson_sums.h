// The sums of a snapshot as lines of JSON, for a table of many snapshots of many hosts.
//
//   {"kind":"account","version":1,"host":"web1","target":"nginx",...,"name":"bins","bytes":4096}
//   {"kind":"size",...,"name":"112 B","blocks":50826,"bytes":5692512,...}
//   {"kind":"process",...,"bytes":191455232,...}
//
// Each line is a row by itself: it names the process and the time of the snapshot, so that rows of
// any number of snapshots go into one table. All kinds have the same members; those that mean
// nothing for a kind are left out and count as 0 or empty. docs/fleet.md describes each of them.
//
// The order is that of the kinds: account, size, arena, stack and frames, owner, leaked, process.
// The process is last: where it is, the snapshot is there as a whole. Within a snapshot no two rows
// have the same kind, name and id.
#pragma once

#include <string>

#include "analysis/reference_streams.h"
#include "analysis/snapshot_streams.h"
#include "report/writer.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap {

// `recorded`: null for a process that was not tracked. `references`: null where there are none.
// `file`: the snapshot's path, whose last part names snapshots that are in no store.
void export_ndjson_sums(const SnapshotStreams& streams, const RecordedStacks* recorded,
                        const ReferenceStreams* references, const std::string& file, Writer& out);
void export_ndjson_sums(const SnapshotReader& reader, const std::string& file, Writer& out);

}  // namespace heapsnap
