// What each call stack of a tracked process holds in a snapshot: the blocks in use that it
// allocated.
//
// Sizes are what the program asked for, as far as the tracker knows (usable size less slack).
// Sampled stacks are weighted, so that sums over blocks are unbiased estimates of what really
// lives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/size_classes.h"
#include "analysis/snapshot_streams.h"
#include "tracking/call_stacks.h"
#include "tracking/tracker_record.h"

namespace heapsnap {

struct StackFigures {
  uint64_t blocks_found = 0;  // not weighted
  double live_blocks = 0;
  double live_bytes = 0;
};

struct StackCensus {
  std::vector<StackFigures> stacks;  // as CallStacks::sites
  double live_blocks = 0;            // of all stacks
  double live_bytes = 0;
  // Blocks in use with no stack: allocated before tracking began; when sampling, also those that it
  // passed over. Usable bytes. The thread caches, which malloc makes for itself, are not counted.
  Tally without_stack;
  // Blocks whose stack id is past the end of the table: the tracker's tables were damaged.
  Tally strange;
  // Of those with no stack, what sampling passed over: an estimate, which the figures of the stacks
  // count, too. Usable bytes, no more than there are.
  Tally passed_over;
};

StackCensus take_stack_census(const SnapshotStreams& streams, const CallStacks& stacks);

// How many blocks of a size were found, not weighted.
struct SizeCount {
  uint64_t size = 0;
  uint64_t count = 0;
  bool operator==(const SizeCount&) const = default;
};

// The sizes of the blocks of some stacks, as `stacks`, ascending by size. What does not fit into
// `most` pairs of stack and size is added to the next smaller size known of that stack, or left out
// where there is none: memory stays bounded.
std::vector<std::vector<SizeCount>> block_sizes(const SnapshotStreams& streams,
                                                std::span<const uint32_t> stacks,
                                                size_t most = 1U << 20);

// By powers of two: the size of each is the smallest that is counted in it.
std::vector<SizeCount> by_power_of_two(std::span<const SizeCount> sizes);

// By bytes and blocks in use; by allocations; by bytes allocated and freed.
enum class StackOrder { kLiveBytes, kLiveBlocks, kRate, kChurn };

// What `order` compares, of one stack and of all of them.
double measure_of(const StackCensus& census, const CallStacks& stacks, StackOrder order,
                  uint32_t stack);
double total_of(const StackCensus& census, const CallStacks& stacks, StackOrder order);

// What to list by where `wanted` is asked for: the churn, where nothing that was recorded is still
// in use and `wanted` is of that.
StackOrder listing_order(const StackCensus& census, const CallStacks& stacks, StackOrder wanted);

// The stacks by that measure, largest first, without those of which it is 0. At most `limit`; 0:
// all.
std::vector<uint32_t> ranked_stacks(const StackCensus& census, const CallStacks& stacks,
                                    StackOrder order, size_t limit);

// Indexes into `threads`, by what `order` compares, largest first; blocks do not know their thread,
// so that what a thread allocated stands for what is in use. At most `limit`; 0: all.
std::vector<uint32_t> ranked_threads(std::span<const TrackedThread> threads, StackOrder order,
                                     size_t limit);

// What was allocated and freed again, if that is much (16 MiB at least) and much more than is in
// use (16 times at least); else 0.
uint64_t churned_bytes(const StackCensus& census, const CallStacks& stacks);
uint64_t churned_bytes(uint64_t freed, uint64_t in_use);

}  // namespace heapsnap
