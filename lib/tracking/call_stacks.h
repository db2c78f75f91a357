// Call stacks as the tracker keeps them: one tree of frames for all of them.
//
// Stacks that share their outer frames share nodes, so a stack is the id of its innermost node, and
// following `parent` leads from the caller of malloc outwards:
//
//   node 9  return address in parse()  ─parent─►  node 8  in main()  ─parent─►  1 kComplete
//
// Ids below kFirstNode are not frames: they say why the stack ends there. A parent has a lower id
// than its child, always, so that every walk ends.
#pragma once

#include <cstdint>
#include <vector>

#include "base/address.h"
#include "tracker/table_layout.h"
#include "tracking/interpreted_frames.h"

namespace heapsnap {

struct CallNode {
  uint32_t parent = 0;
  int32_t module = -1;     // index into TrackerRecord::modules; -1: of no module (JIT code)
  Address return_address;  // as on the stack: behind the call; or see is_interpreted()
  bool operator==(const CallNode&) const = default;
};

// A call path that allocated, and what it did since recording began. Its index is the stack id that
// chunks carry.
//
// With sample_bytes != 0 the blocks are Poisson samples over bytes with that mean distance: numbers
// are in units of 1 / tracker::kSampledCountUnit then, and they and the bytes are weighted, so that
// sums are unbiased.
struct AllocationSite {
  uint32_t node = 0;   // innermost
  uint32_t depth = 0;  // number of frames
  uint64_t sample_bytes = 0;
  uint64_t allocations = 0;
  uint64_t frees = 0;
  uint64_t allocated_bytes = 0;
  uint64_t freed_bytes = 0;

  double allocation_count() const { return in_blocks(allocations); }
  double free_count() const { return in_blocks(frees); }
  // How many blocks a block of `size` bytes that was recorded here stands for.
  double weight(uint64_t size) const;
  bool operator==(const AllocationSite&) const = default;

 private:
  double in_blocks(uint64_t number) const {
    const auto unit = static_cast<double>(sample_bytes == 0 ? 1 : tracker::kSampledCountUnit);
    return static_cast<double>(number) / unit;
  }
};

// Why a stack ends where it does.
enum class StackEnd : uint8_t {
  kNone = 0,          // no frames were asked for
  kComplete = 1,      // reached the thread's first function
  kDepthLimit = 2,    // there are more
  kNoUnwindInfo = 3,  // truncated: the next address has no unwind information (JIT code)
  kBadFrame = 4,      // truncated: the unwind information is invalid
};
const char* to_string(StackEnd end);

struct CallStacks {
  std::vector<CallNode> nodes;        // index: node id; the first kFirstNode are no frames
  std::vector<AllocationSite> sites;  // index: stack id
  // As they are read from a process: of frames of interpreters, by tracker::function_of().
  std::vector<InterpretedFunction> functions;
  FrameLanguage language = FrameLanguage::kNative;  // of an interpreter's frames without a function

  // Cuts stacks that are deeper than the tracker records any, so that the work on a stack is
  // bounded: what lies further out is left out of them. Gives how many frames were cut off.
  size_t cut_deep_stacks();

  // Calls visit(node id) for each frame of the stack that begins with `node`, innermost first.
  template <typename Visit>
  StackEnd walk(uint32_t node, Visit visit) const {
    for (uint32_t depth = 0; node >= tracker::kFirstNode && node < nodes.size(); ++depth) {
      if (depth == tracker::kFramesAtMost) return StackEnd::kDepthLimit;
      visit(node);
      const uint32_t parent = nodes[node].parent;
      if (parent >= node) return StackEnd::kBadFrame;
      node = parent;
    }
    return node <= tracker::kRootBadFrame ? static_cast<StackEnd>(node) : StackEnd::kBadFrame;
  }
};

}  // namespace heapsnap
