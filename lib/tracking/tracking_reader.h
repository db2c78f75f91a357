// Reads what the tracker has recorded out of a process, stopped or running, or out of a core.
//
// Nothing in the tables is trusted: ids are checked against the tables they point into, walks and
// memory are bounded, and what is invalid is reported in TrackerRecord::notes.
#pragma once

#include <cstdint>

#include "target/memory_reader.h"
#include "tracker/table_layout.h"
#include "tracking/call_stacks.h"
#include "tracking/tracker_record.h"

namespace heapsnap {

// What is read at most; snapshots hold no more either.
inline constexpr uint64_t kMaxCallNodes = 8U << 20;
inline constexpr uint64_t kMaxAllocationSites = 4U << 20;
inline constexpr uint64_t kMaxTrackedThreads = 64U << 10;
inline constexpr uint64_t kMaxTrackedModules = 64U << 10;
inline constexpr uint64_t kMaxInterpretedFunctions = 1U << 20;
inline constexpr uint64_t kMaxFunctionTexts = 256U << 20;  // bytes of names and tables of lines
inline constexpr uint64_t kMaxModulePath = 4096;
inline constexpr uint64_t kMaxModulePaths = 16U << 20;  // bytes of all of them

struct Tracking {
  TrackerRecord record;
  CallStacks stacks;
};

// All of it. The counts of a site hold what its threads have not yet added to it. `now_ns`:
// CLOCK_MONOTONIC of the moment that is read; 0 where it is not known. Throws Error as
// read_directory() does, and Error{kNoProcess} when there is no Directory at `directory`.
Tracking read_tracking(MemoryReader& memory, Address directory, uint64_t now_ns);

// The totals alone, for looking often: two reads and 128 bytes a thread.
struct TrackerTotals {
  uint64_t allocations = 0;
  uint64_t frees = 0;
  uint64_t allocated_bytes = 0;
  uint64_t freed_bytes = 0;
  uint64_t dropped = 0;  // blocks not recorded at all
  bool recording = false;

  uint64_t churn() const { return allocated_bytes + freed_bytes; }
  // What came to stay: negative when more was freed than allocated.
  int64_t growth() const { return static_cast<int64_t>(allocated_bytes - freed_bytes); }
};
// Throws as read_tracking() does.
TrackerTotals read_tracker_totals(MemoryReader& memory, Address directory);

}  // namespace heapsnap
