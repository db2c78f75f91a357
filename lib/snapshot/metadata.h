// Everything in a snapshot except the long columns (chunks, page states, contents).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heap/heap_model.h"
#include "target/mapping.h"
#include "target/process.h"
#include "tracking/tracker_record.h"

namespace heapsnap {

struct SnapshotMetadata {
  std::string writer;  // "heapsnap 0.1.0"
  Process process;
  FreezeRecord freeze;
  std::vector<Thread> threads;
  std::vector<Mapping> mappings;
  std::vector<MappingUsage> usage;  // as many as mappings, or empty where unknown (cores)
  HeapModel heap;
  std::optional<TrackerRecord> tracker;  // of a tracked process
  std::vector<std::string> notes;        // what the reader of a report should know, a sentence each
};

}  // namespace heapsnap
