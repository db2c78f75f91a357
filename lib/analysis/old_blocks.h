// Who probably allocated the blocks that have no call stack because they were allocated before the
// tracker was loaded.
//
//   size   without a stack   with one, in use                   conclusion
//    352           629,057   2,000, all by build_graph()        probably build_graph(), too
//     48            70,412   900 by parse(), 3 by read()        none
//    128             8,000   12 by log()                        none: too few
//
// It is an inference, and no more: the program may have done other work before. So nothing is
// concluded unless enough blocks of that size were recorded and are in use, all of them from one
// place, and no other place is known to free blocks of that size; nor where the tracker missed
// blocks, or took samples.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/passed_frames.h"
#include "analysis/size_classes.h"
#include "analysis/snapshot_streams.h"
#include "snapshot/call_stack_tables.h"

namespace heapsnap {

struct OldBlocks {
  uint64_t size = 0;   // of each chunk, header included
  Tally old;           // in use without a stack; bytes of chunks
  uint64_t newer = 0;  // in use with a stack
  uint32_t stack = 0;  // the stack of one of these: all have the same place
  bool operator==(const OldBlocks&) const = default;
};

// Recorded blocks of the size, at least, and for so many old ones one; and old ones.
inline constexpr uint64_t kEnoughNewerBlocks = 100;
inline constexpr uint64_t kMostOldToNewer = 100;
inline constexpr uint64_t kEnoughOldBlocks = 100;

// How many sizes listings name.
inline constexpr size_t kMostOldSizes = 3;

// The sizes of which something can be concluded and whose old blocks are 1 % of the bytes of all
// old blocks at least, the most bytes first; at most `most`. `metadata` of the streams has a
// tracker.
std::vector<OldBlocks> attribute_old_blocks(const SnapshotStreams& streams,
                                            const RecordedStacks& recorded,
                                            const PassedFrames& passed, size_t most);

}  // namespace heapsnap
