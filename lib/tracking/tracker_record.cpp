#include "tracking/tracker_record.h"

#include "tracker/table_layout.h"

namespace heapsnap {

uint64_t limit_reached_after(const TrackerRecord& tracker) {
  if (tracker.limit_reached_ns == 0) return 0;
  // The limit of a start that changes options can be below what is taken.
  return tracker.limit_reached_ns > tracker.started_ns
             ? tracker.limit_reached_ns - tracker.started_ns
             : 1;
}

std::vector<std::string> limit_names(uint32_t limits) {
  struct Named {
    uint32_t bit;
    const char* name;
  };
  constexpr Named kNames[] = {
      {tracker::kLimitMemory, "memory"},   {tracker::kLimitNodes, "frames"},
      {tracker::kLimitStacks, "stacks"},   {tracker::kLimitThreads, "threads"},
      {tracker::kLimitModules, "modules"}, {tracker::kLimitAddressSpace, "address space"},
      {tracker::kLimitRegions, "regions"}, {tracker::kLimitFunctions, "functions"},
  };
  std::vector<std::string> names;
  for (const Named& named : kNames) {
    if ((limits & named.bit) != 0) names.emplace_back(named.name);
  }
  return names;
}

}  // namespace heapsnap
