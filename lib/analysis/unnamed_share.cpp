#include "analysis/unnamed_share.h"

#include <algorithm>
#include <map>

#include "tracking/function_name.h"

namespace heapsnap {

UnnamedShare unnamed_share(const FunctionGroups& groups) {
  double all = 0;
  double unnamed = 0;
  std::map<std::string, double> bytes_of;  // by module
  for (const StackGroup& group : groups.groups) {
    all += group.live_bytes;
    if (!group.is_function || !is_name_of_start(group.name)) continue;
    unnamed += group.live_bytes;
    bytes_of[group.name.substr(0, group.name.rfind("+0x"))] += group.live_bytes;
  }
  if (unnamed <= 0) return {};
  const auto most =
      std::max_element(bytes_of.begin(), bytes_of.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return {unnamed / all, most->first};
}

}  // namespace heapsnap
