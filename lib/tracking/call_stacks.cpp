#include "tracking/call_stacks.h"

#include <cmath>

namespace heapsnap {

double AllocationSite::weight(uint64_t size) const {
  if (sample_bytes == 0) return 1;
  // A block of no bytes is never sampled, but one that says so is one block.
  if (size == 0) return 1;
  return -1 / std::expm1(-static_cast<double>(size) / static_cast<double>(sample_bytes));
}

size_t CallStacks::cut_deep_stacks() {
  static_assert(tracker::kFramesAtMost < UINT16_MAX);
  std::vector<uint16_t> depths(nodes.size());  // frames from the outermost one to this
  size_t cut = 0;
  for (size_t i = tracker::kFirstNode; i < nodes.size(); ++i) {
    CallNode& node = nodes[i];
    // A parent has a lower id, or the walk ends there.
    const uint16_t above = node.parent < i ? depths[node.parent] : uint16_t{0};
    if (above == tracker::kFramesAtMost) {
      node.parent = tracker::kRootDepthLimit;
      depths[i] = 1;
      ++cut;
    } else {
      depths[i] = static_cast<uint16_t>(above + 1);
    }
  }
  return cut;
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
