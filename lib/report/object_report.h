// The objects of language runtimes, for people and for programs.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/object_census.h"
#include "report/json_writer.h"
#include "report/text_report.h"
#include "report/writer.h"
#include "snapshot/metadata.h"

namespace heapsnap {

struct ObjectReportInput {
  const SnapshotMetadata& metadata;  // has runtimes
  const ObjectCensus& census;
  std::string snapshot_path;  // empty: a temporary one
  std::string core_path{};    // of a temporary one: the core that it is of
};

// Each runtime with its areas, then the first `limit` classes (0: all), then pages by slot size.
void print_objects(Writer& out, const ObjectReportInput& input, uint64_t limit,
                   const TextStyle& style);
// The members of one of metadata.runtimes.
void write_json_runtime(JsonWriter& json, const SnapshotMetadata& metadata, size_t number);
// {"kind":"objects","version":1,...}: all classes, in the order of the census.
void print_json_objects(Writer& out, const ObjectReportInput& input);

}  // namespace heapsnap
