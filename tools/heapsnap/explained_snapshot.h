// What leaks, owners and why begin with: a snapshot with references, from a file, or taken of a
// process or a core for this one command.
#pragma once

#include <string>

#include "analysis/reference_streams.h"
#include "analysis/snapshot_streams.h"
#include "report/reference_report.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/snapshot_reader.h"
#include "tools/heapsnap/any_snapshot.h"

namespace heapsnap {

// Throws Error{kUnsupported} when the snapshot has no references, with how to take one that has.
// `what`: the user's word for it.
void require_references(const SnapshotReader& snapshot, const std::string& what);

class ExplainedSnapshot {
 public:
  // Throws Error{kUsage} when `command` was given nothing, Error{kUnsupported} when the snapshot
  // has no references (with how to take one that has), and as the capture does.
  ExplainedSnapshot(const std::string& command, const SnapshotSource& source);

  SnapshotStreams streams() const { return streams_of(reader()); }
  const ReferenceStreams& references() const { return references_; }
  const RecordedStacks& recorded() const { return recorded_; }
  const SnapshotMetadata& metadata() const { return reader().metadata(); }
  ReferenceReportInput report_input() const;

 private:
  const SnapshotReader& reader() const { return snapshot_.reader(); }

  AnySnapshot snapshot_;
  ReferenceStreams references_;
  RecordedStacks recorded_;
};

}  // namespace heapsnap
