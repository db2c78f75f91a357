// Call stacks added up by function or by module.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analysis/passed_frames.h"
#include "analysis/stack_census.h"
#include "snapshot/call_stack_tables.h"
#include "tracking/tracker_record.h"

namespace heapsnap {

struct StackGroup {
  std::string name;  // of a function, or the path of a module; as the target has it
  bool is_function = false;
  // Of the stacks that are charged to it (charged_frame()).
  double live_bytes = 0;
  double live_blocks = 0;
  double allocations = 0;
  double frees = 0;
  double allocated_bytes = 0;
  double freed_bytes = 0;
  // Of the stacks in which it occurs anywhere.
  double live_bytes_below = 0;
};

// A function that allocates blocks of many sizes for many others and calls nothing else that
// allocates, as ways to malloc do.
struct CommonAllocator {
  std::string name;
  size_t callers = 0;
};

struct FunctionGroups {
  std::vector<StackGroup> groups;
  // Those without a name, which no pattern could know: also passed over.
  std::vector<CommonAllocator> passed;
  // One with a name that is charged with more than half of all live bytes.
  std::optional<CommonAllocator> suspect;
};
// Adds to `passed` those without a name that group_by_function() passes over, so that all listings
// charge the same functions.
void pass_over_unnamed(const StackCensus& census, const RecordedStacks& recorded,
                       const TrackerRecord& tracker, PassedFrames& passed);
FunctionGroups group_by_function(const StackCensus& census, const RecordedStacks& recorded,
                                 const TrackerRecord& tracker, const PassedFrames& passed);
std::vector<StackGroup> group_by_module(const StackCensus& census, const RecordedStacks& recorded,
                                        const TrackerRecord& tracker, const PassedFrames& passed);

// What `order` compares.
double measure_of(const StackGroup& group, StackOrder order);

// Orders by that measure, largest first, and cuts to `limit`; 0: all.
void rank_groups(std::vector<StackGroup>& groups, StackOrder order, size_t limit);

}  // namespace heapsnap
