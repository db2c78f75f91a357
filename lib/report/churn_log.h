// A log of churn in the manner of pmem: an entry each time that so many bytes were allocated and
// freed, with what each call stack did.
//
//   [  3]=========================================================
//   churn=1048992/1048576
//
//   {8c2f0a51d4e7b960} live:6400, alloc:1200/9000, free:0/2600, live_count:64,
//     alloc_count:12/90, free_count:0/26
//     {0} make_node(int)+0x16 (tree)
//     {1} main+0x2b (tree)
//
// `churn` is what happened since the entry before, and the threshold. `alloc` and `free` are bytes
// since the entry before and since tracking began; counts of the same follow. The hash names a call
// path: the same return addresses have the same one, in every entry. Stacks that did nothing since
// the entry before are left out: what was said of them last still holds.
#pragma once

#include <cstdint>
#include <vector>

#include "report/writer.h"
#include "snapshot/call_stack_tables.h"
#include "tracking/tracker_record.h"

namespace heapsnap {

class ChurnLog {
 public:
  explicit ChurnLog(Writer& out) : out_(out) {}

  // What the first entry is compared with; without it, with the begin of tracking.
  void begin(const CallStacks& stacks);
  // The stacks that did something since the entry before: those that the next one lists.
  std::vector<uint32_t> busy_stacks(const CallStacks& stacks) const;
  // One entry. `churn`: bytes since the one before; `threshold`: 0 when there is none.
  void add(const RecordedStacks& recorded, const TrackerRecord& tracker, uint64_t churn,
           uint64_t threshold);

 private:
  Writer& out_;
  uint64_t entries_ = 0;
  std::vector<AllocationSite> before_;  // by stack id; later stacks are not in it
};

}  // namespace heapsnap
