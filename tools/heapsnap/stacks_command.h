#pragma once

#include <string>
#include <vector>

namespace heapsnap {

// heapsnap stacks: the call stacks of a tracked process.
int run_stacks(const std::vector<std::string>& arguments);

}  // namespace heapsnap
