// Call stacks added up by function or by module.
#pragma once

#include <string>
#include <vector>

#include "analysis/stack_census.h"
#include "snapshot/call_stack_tables.h"
#include "tracking/tracker_record.h"

namespace heapsnap {

struct StackGroup {
  std::string name;  // of a function, or the path of a module; as the target has it
  // Of the stacks in which it is the first frame that is not a mere way to malloc.
  double live_bytes = 0;
  double live_blocks = 0;
  double allocations = 0;
  double frees = 0;
  double allocated_bytes = 0;
  double freed_bytes = 0;
  // Of the stacks in which it occurs anywhere.
  double live_bytes_below = 0;
};

// operator new, the standard allocators, xmalloc and the like: functions that are in every stack
// and explain nothing.
bool is_allocation_wrapper(std::string_view function);

std::vector<StackGroup> group_by_function(const StackCensus& census, const RecordedStacks& recorded,
                                          const TrackerRecord& tracker);
std::vector<StackGroup> group_by_module(const StackCensus& census, const RecordedStacks& recorded,
                                        const TrackerRecord& tracker);

// What `order` compares.
double measure_of(const StackGroup& group, StackOrder order);

// Orders by that measure, largest first, and cuts to `limit`; 0: all.
void rank_groups(std::vector<StackGroup>& groups, StackOrder order, size_t limit);

}  // namespace heapsnap
