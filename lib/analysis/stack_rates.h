// What each call stack of a tracked process did between two looks at it, and what it holds.
//
// Counts of a running process are read one after the other: a free may be seen before its
// allocation, so what is live may be less than nothing for a moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tracking/call_stacks.h"

namespace heapsnap {

struct StackRate {
  uint32_t stack = 0;
  int64_t live_bytes = 0;  // allocated and not freed since the process is tracked
  double live_blocks = 0;
  // Per second of the interval before; 0 at the first look:
  int64_t live_per_s = 0;    // bytes
  uint64_t churn_per_s = 0;  // bytes allocated and freed
  double allocations_per_s = 0;
};

enum class StackMeasure : uint8_t { kLive, kLiveRate, kChurn, kAllocations, kBlocks };
double measure_of(const StackRate& rate, StackMeasure by);

class StackRates {
 public:
  // The next look, at `monotonic_ns`: the stacks of which `by` is highest, the highest first, of
  // equal ones those that hold more, `most` of them at most. Those that hold nothing and did
  // nothing are left out. When recording began anew since the look before (fewer stacks, or lower
  // counts), there are no rates.
  std::vector<StackRate> next(const CallStacks& stacks, uint64_t monotonic_ns, StackMeasure by,
                              size_t most);
  // How many stacks held or did something at the last look.
  size_t busy() const { return busy_; }

 private:
  struct Counts {
    uint64_t allocations = 0;
    uint64_t allocated_bytes = 0;
    uint64_t freed_bytes = 0;
  };

  bool begins_anew(const CallStacks& stacks) const;

  std::vector<Counts> before_;  // by stack
  uint64_t before_ns_ = 0;
  size_t busy_ = 0;
};

}  // namespace heapsnap
