// What the tracker of a process says of itself: its options, what it dropped, its threads and
// modules. Everything but the call stacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"

namespace heapsnap {

// An ELF file that the process had loaded while it was tracked.
struct TrackedModule {
  std::string path;      // as the loader of the process has it; may be empty for the program
  std::string build_id;  // lower-case hex; empty: has none
  uint64_t bias = 0;     // add to an ELF virtual address, modulo 2^64
  AddressRange range;
  uint64_t loaded = 0;    // generation in which it was first seen
  uint64_t unloaded = 0;  // in which it was found gone; 0: it is loaded
  bool operator==(const TrackedModule&) const = default;
};

// What one thread did while it was recorded. Counts are of events and not weighted.
struct TrackedThread {
  uint32_t tid = 0;  // 0: the sum of threads that have exited
  std::string name;
  bool exited = false;
  uint64_t allocations = 0;
  uint64_t frees = 0;
  uint64_t allocated_bytes = 0;
  uint64_t freed_bytes = 0;
  uint64_t without_stack = 0;
  uint64_t truncated = 0;
  bool operator==(const TrackedThread&) const = default;
};

struct TrackerRecord {
  uint32_t version = 0;  // of the layout of its tables
  Address directory;     // where they begin
  bool recording = false;
  uint32_t pid = 0;           // as the process itself has it, in its own namespace
  uint64_t generation = 0;    // 1; more in forked children that inherited the tables
  uint64_t start_count = 0;   // how often recording was started or its options changed
  uint64_t started_ns = 0;    // CLOCK_MONOTONIC of the last start, not of a change
  uint64_t recorded_ns = 0;   // from then to the snapshot; 0: not known (cores)
  uint64_t sample_bytes = 0;  // 0: every allocation
  uint32_t max_frames = 0;
  uint64_t memory_limit = 0;  // bytes; 0: none
  uint64_t memory_reserved = 0;
  uint64_t memory_used = 0;
  uint32_t limits = 0;  // kLimit... bits of tracker/table_layout.h
  uint64_t dropped_slots = 0;
  uint64_t dropped_stacks = 0;
  uint64_t nested_events = 0;
  uint64_t dropped_threads = 0;
  uint64_t slow_unwinds = 0;
  uint64_t full_unwinds = 0;
  // CLOCK_MONOTONIC since when new blocks are not recorded, the memory limit being reached; 0: they
  // are. And how many were allocated since then at least.
  uint64_t limit_reached_ns = 0;
  uint64_t unrecorded = 0;
  std::vector<TrackedModule> modules;
  std::vector<TrackedThread> threads;
  // Its tables, by address; without the working memory that no list names.
  std::vector<AddressRange> memory;
  std::vector<std::string> notes;  // what was found amiss in the tables, a sentence each
  bool operator==(const TrackerRecord&) const = default;
};

// Nanoseconds from the last start of recording to the moment since when no new block is recorded;
// 0: they are.
uint64_t limit_reached_after(const TrackerRecord& tracker);

// The limits that were reached, in words: "memory", "stacks", ...
std::vector<std::string> limit_names(uint32_t limits);

}  // namespace heapsnap
