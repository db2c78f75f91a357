// What one look at a running process said, and how fast that changed since the look before.
#pragma once

#include <cstdint>
#include <optional>

#include "heap/discovery/malloc_counters.h"
#include "tracking/tracking_reader.h"

namespace heapsnap {

// Sizes in bytes. Resident memory and swap as the kernel counts them.
struct WatchLook {
  int64_t at_ns = 0;          // CLOCK_REALTIME
  uint64_t monotonic_ns = 0;  // CLOCK_MONOTONIC
  uint64_t rss = 0;           // the sum of the next three
  uint64_t anonymous = 0;
  uint64_t file = 0;
  uint64_t shmem = 0;
  uint64_t swap = 0;
  uint64_t threads = 0;
  std::optional<MallocCounters> malloc;
  std::optional<TrackerTotals> tracker;  // of a tracked process

  // What its growth is measured by: live bytes if it is tracked, else what is resident or in swap.
  // Live bytes may be negative: blocks from before tracking are freed, too.
  int64_t held_bytes() const;
};

// Of the interval between two looks, per second.
struct WatchRates {
  double seconds = 0;  // length of the interval
  int64_t rss = 0;     // bytes
  // Of a tracked process:
  int64_t live = 0;    // bytes
  uint64_t churn = 0;  // bytes allocated and freed
  uint64_t allocations = 0;
};

// Nothing when no time has passed. Counts that fell, because recording started over, rise by 0.
std::optional<WatchRates> rates_between(const WatchLook& before, const WatchLook& now);

}  // namespace heapsnap
