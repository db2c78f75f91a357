// Which processes a target of the configuration matches now.
#pragma once

#include <string>
#include <vector>

#include "platform/linux/proc/process_list.h"
#include "tools/collect/collect_config.h"

namespace heapsnap {

// What has to be read of each process for these targets.
ListedEntries entries_for(const std::vector<TargetRule>& targets);

struct TargetMatch {
  std::vector<ListedProcess> processes;  // oldest first; all of them
  std::string why_none;                  // where there is none
};

// `processes`: all of the machine. Reads nothing but the rule's pid_file.
TargetMatch match_target(const TargetRule& rule, const std::vector<ListedProcess>& processes);

// "process nginx in unit web.service".
std::string to_text(const TargetRule& rule);

// Whether a path of a control group lies in the unit, or below the group.
bool is_of_unit(const std::string& path, const std::string& unit);
// The same of a unit of the system's own manager, which has nothing but slices above it. Users'
// managers and containers have units, too, by any name that they like.
bool is_of_system_unit(const std::string& path, const std::string& unit);
bool is_below_group(const std::string& path, const std::string& group);

}  // namespace heapsnap
