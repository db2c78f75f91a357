// Everything in a snapshot except the long columns (chunks, page states, contents).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heap/heap_model.h"
#include "references/reference_record.h"
#include "runtime/runtime_model.h"
#include "target/mapping.h"
#include "target/process.h"
#include "tracking/tracker_record.h"

namespace heapsnap {

// The nearest limit of the process's memory, when the snapshot was taken.
struct MemoryLeft {
  uint64_t bytes = 0;  // until it is reached
  std::string limit;   // "memory limit of /app", "memory of this machine"
  bool operator==(const MemoryLeft&) const = default;
};

// Of a snapshot that `heapsnap collect` took.
struct Collection {
  std::string place;  // below the store: "HOST/NAME/20260131T235959Z-4711.hsnap"
  bool operator==(const Collection&) const = default;
};

struct SnapshotMetadata {
  std::string writer;  // "heapsnap 0.1.0"
  Process process;
  std::optional<Collection> collection;
  std::optional<MemoryLeft> memory_left;  // of a live process, where the kernel says it
  FreezeRecord freeze;
  std::vector<Thread> threads;
  std::vector<Mapping> mappings;
  std::vector<MappingUsage> usage;  // as many as mappings, or empty where unknown (cores)
  HeapModel heap;
  std::optional<TrackerRecord> tracker;       // of a tracked process
  std::optional<ReferenceRecord> references;  // none: nobody looked for them
  RuntimeModel runtimes;                      // of languages that the process speaks
  std::vector<std::string> notes;  // what the reader of a report should know, a sentence each
};

// What the program is called on this host: the name of the target that `heapsnap collect` took the
// snapshot of, else the process's own.
std::string target_name(const SnapshotMetadata& metadata);

}  // namespace heapsnap
