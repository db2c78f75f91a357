#include "tracking/call_stacks.h"

#include <cmath>

namespace heapsnap {

double AllocationSite::weight(uint64_t size) const {
  if (sample_bytes == 0) return 1;
  // A block of no bytes is never sampled, but one that says so is one block.
  if (size == 0) return 1;
  return -1 / std::expm1(-static_cast<double>(size) / static_cast<double>(sample_bytes));
}

const char* to_string(StackEnd end) {
  switch (end) {
    case StackEnd::kNone: return "none";
    case StackEnd::kComplete: return "complete";
    case StackEnd::kDepthLimit: return "depth-limit";
    case StackEnd::kNoUnwindInfo: return "no-unwind-info";
    case StackEnd::kBadFrame: return "bad-frame";
  }
  return "unknown";
}

}  // namespace heapsnap
