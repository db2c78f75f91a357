// What the JSON of one snapshot's stacks, or of one of its chunks, begins with.
#pragma once

#include <string>
#include <string_view>

#include "report/json_writer.h"
#include "report/number_text.h"
#include "snapshot/metadata.h"

namespace heapsnap {

inline void write_json_head(JsonWriter& json, std::string_view kind,
                            const SnapshotMetadata& metadata, const std::string& snapshot_path) {
  json.member("kind", kind);
  json.member("version", 1);
  json.member("writer", metadata.writer);
  json.member("snapshot", snapshot_path);
  json.member("pid", metadata.process.pid);
  json.member("comm", metadata.process.comm);
  json.member("exe", metadata.process.exe);
  json.member("taken_at", time_text(metadata.process.taken_at_ns));
}

}  // namespace heapsnap
