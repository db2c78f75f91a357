// heapsnap report SNAPSHOT
#pragma once

#include <string>
#include <vector>

namespace heapsnap {

int run_report(const std::vector<std::string>& arguments);

}  // namespace heapsnap
