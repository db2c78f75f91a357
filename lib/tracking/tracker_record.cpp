#include "tracking/tracker_record.h"

#include "tracker/table_layout.h"

namespace heapsnap {

std::vector<std::string> limit_names(uint32_t limits) {
  struct Named {
    uint32_t bit;
    const char* name;
  };
  constexpr Named kNames[] = {
      {tracker::kLimitMemory, "memory"},   {tracker::kLimitNodes, "frames"},
      {tracker::kLimitStacks, "stacks"},   {tracker::kLimitThreads, "threads"},
      {tracker::kLimitModules, "modules"}, {tracker::kLimitAddressSpace, "address space"},
      {tracker::kLimitRegions, "regions"},
  };
  std::vector<std::string> names;
  for (const Named& named : kNames) {
    if ((limits & named.bit) != 0) names.emplace_back(named.name);
  }
  return names;
}

}  // namespace heapsnap
